/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/error.h"

#include <stdarg.h>
#include <stdio.h>

/* Registered at each initialize: to register clears the error stack, so it can't wait for the first
 * error. A thread that ends with errors on its stack keeps their class for ever, and the end of the
 * library would wait for that in vain: a thread-safe library's errors are of HDF5's own class,
 * which isn't counted. */
static hid_t error_class = H5I_INVALID_HID;

void mkt_vol_error_init(void)
{
    hbool_t threadsafe = false;
    if (H5is_library_threadsafe(&threadsafe) >= 0 && threadsafe)
        error_class = H5E_ERR_CLS;
    else if (error_class < 0)
        error_class = H5Eregister_class("H5Market", "h5market", "1");
}

void mkt_vol_error_fini(void)
{
    if (error_class >= 0 && error_class != H5E_ERR_CLS)
        H5Eunregister_class(error_class);
    error_class = H5I_INVALID_HID;
}

herr_t mkt_vol_fail(hid_t major, hid_t minor, const char *format, ...)
{
    char text[MKT_ERROR_TEXT_BYTES + 512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (error_class >= 0)
        H5Epush2(H5E_DEFAULT, "h5market", "market", 0, error_class, major, minor, "%s", text);
    return -1;
}

static hid_t minor_of(enum mkt_status status)
{
    switch (status) {
    case MKT_NOT_FOUND:
        return H5E_NOTFOUND;
    case MKT_END:
        return H5E_CANTNEXT;
    case MKT_EXISTS:
        return H5E_FILEEXISTS;
    case MKT_BUSY:
        return H5E_CANTLOCKFILE;
    case MKT_NO_SPACE:
    case MKT_NO_MEMORY:
        return H5E_NOSPACE;
    case MKT_UNSUPPORTED:
        return H5E_UNSUPPORTED;
    case MKT_INVALID:
        return H5E_BADVALUE;
    case MKT_DENIED:
        return H5E_CANTOPENFILE;
    default:
        return H5E_CANTOPERATE;
    }
}

herr_t mkt_vol_fail_status(const struct mkt_error *error)
{
    return mkt_vol_fail(H5E_VOL, minor_of(error->status), "%s",
                        error->text[0] ? error->text : mkt_status_text(error->status));
}

void mkt_vol_silence_begin(struct mkt_vol_silence *silence)
{
    unsigned is_v2 = 0;
    silence->active = H5Eauto_is_v2(H5E_DEFAULT, &is_v2) >= 0 && is_v2 &&
                      H5Eget_auto2(H5E_DEFAULT, &silence->function, &silence->data) >= 0 &&
                      silence->function && H5Eset_auto2(H5E_DEFAULT, NULL, NULL) >= 0;
}

void mkt_vol_silence_end(const struct mkt_vol_silence *silence)
{
    if (silence->active)
        H5Eset_auto2(H5E_DEFAULT, silence->function, silence->data);
}

void mkt_vol_close_keeping_errors(hid_t id)
{
    hid_t stack = H5Eget_current_stack();
    H5Idec_ref(id);
    if (stack >= 0)
        H5Eset_current_stack(stack);
}
