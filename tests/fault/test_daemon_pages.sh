#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Memory that came free is used again, kept while a writer comes regularly, and given back when none comes.
source "$(dirname "$0")/daemon.sh"

resident() { status memory.resident_bytes; }
live() { status memory.live_bytes; }
mib=$((1 << 20))

"$probe" write "$PWD/a.h5" 64 8 100 >/dev/null || fail "no write"
peak=$(resident)
# The newest version, the one being written, at most as much again made ready, and what is rounded up.
((peak <= 64 * 4 * mib)) || fail "8 versions of 64 MiB take $((peak / mib)) MiB: nothing is used again"
sleep 5
now=$(resident)
((now >= $(live))) || fail "less in memory than what lives"
((now * 100 <= $(live) * 106)) || fail "$((now / mib)) MiB stay for $(($(live) / mib)) MiB that live"
"$probe" read "$PWD/a.h5" 64 >/dev/null || fail "what was given back was in use"
"$probe" rm "$PWD/a.h5" || fail "no withdrawal"
until_true 5 has_status memory.resident_bytes 0 || fail "$(resident) bytes stay for nothing"

# A writer that comes every two seconds finds its pages.
"$probe" write "$PWD/b.h5" 32 4 2000 >/dev/null || fail "no write"
sleep 4
kept=$(resident)
((kept >= 60 * mib)) || fail "after 4 s without a writer that comes every 2 s only $((kept / mib)) MiB are left"
"$probe" rm "$PWD/b.h5" || fail "no withdrawal"

# While a writer computes, the pages of its next version are made ready beside the one that lives.
until_true 10 has_status memory.resident_bytes 0 || fail "$(resident) bytes stay for nothing"
"$probe" write "$PWD/c.h5" 32 2 6000 >/dev/null &
writer=$!
ready() { (($(resident) >= 64 * mib)); }
until_true 5 ready || fail "only $(($(resident) / mib)) MiB are ready while the writer computes"
[[ $(live) -lt $((48 * mib)) ]] || fail "the second version was there already"
wait "$writer" || fail "no write"
stop_daemon
