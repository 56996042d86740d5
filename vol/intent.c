/* SPDX-License-Identifier: BSD-3-Clause */
#include "vol/intent.h"

#include <stdlib.h>
#include <string.h>

#include "vol/error.h"
#include "vol/walk.h"

static bool is_readers(const struct mkt_vol_file *file)
{
    return file && file->in_market && !file->writable;
}

static herr_t refuse(hid_t major)
{
    return mkt_vol_fail(major, H5E_WRITEERROR, "no write intent on file");
}

herr_t mkt_vol_may_write(const struct mkt_vol_object *object)
{
    return object && is_readers(object->file)
               ? refuse(object->type == H5I_FILE ? H5E_FILE : H5E_DATASET)
               : 0;
}

/* The group that the link is to be in, if there is a path to it; malloc'ed. */
static char *folder_of(const char *name)
{
    const char *slash = strrchr(name, '/');

    if (!slash)
        return NULL;
    return slash == name ? strdup("/") : strndup(name, (size_t)(slash - name));
}

/* Whether that group is in a file for reading (by the id of a file that is mounted native reaches
 * the one it is mounted in); if it isn't there native has more to say. */
static bool leads_to_readers(struct mkt_vol_object *location, const char *folder)
{
    struct mkt_vol_object group;
    struct mkt_vol_silence silence;

    /* A link of the program's own class on the way is the program's function, called once more. */
    mkt_vol_silence_begin(&silence);
    herr_t opened = mkt_vol_walk_open(location, folder, &group);
    mkt_vol_silence_end(&silence);
    if (opened < 0) {
        H5Eclear2(H5E_DEFAULT);
        return false;
    }
    bool readers = is_readers(group.file);
    mkt_vol_walk_close(&group);
    return readers;
}

herr_t mkt_vol_may_link(struct mkt_vol_object *location, const H5VL_loc_params_t *loc)
{
    if (!location || !is_readers(location->file))
        return 0;
    char *folder =
        loc->type == H5VL_OBJECT_BY_NAME ? folder_of(loc->loc_data.loc_by_name.name) : NULL;
    bool readers = leads_to_readers(location, folder ? folder : ".");
    free(folder);
    return readers ? refuse(H5E_LINK) : 0;
}

herr_t mkt_vol_may_write_in(struct mkt_vol_object *location)
{
    return is_readers(location->file) && leads_to_readers(location, ".") ? refuse(H5E_OHDR) : 0;
}
