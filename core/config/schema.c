/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/config/schema.h"

#include <stddef.h>

#define KIB           (UINT64_C(1) << 10)
#define MIB           (UINT64_C(1) << 20)
#define GIB           (UINT64_C(1) << 30)
#define TIB           (UINT64_C(1) << 40)
#define SECOND        UINT64_C(1000)
#define DAY           (UINT64_C(86400) * SECOND)
#define LONGEST       (UINT64_C(30) * DAY)
#define CONFIG(field) offsetof(struct mkt_config, field)
#define RULE(field)   offsetof(struct mkt_rule, field)

static const struct mkt_schema_field resource_fields[] = {
    {.key = "memory",
     .kind = MKT_VALUE_SIZE_OR_PERCENT,
     .offset = CONFIG(memory_bytes),
     .minimum = 16 * MIB,
     .maximum = 1024 * TIB,
     .standard = "50%",
     .help = "What all files in memory may use together. A percentage counts from the node's "
             "memory or from the tightest "
             "memory limit (cgroup) above the daemon, whichever is less; a size never goes beyond "
             "these."},
    {.key = "journal",
     .kind = MKT_VALUE_SIZE,
     .offset = CONFIG(journal_bytes),
     .minimum = 64 * KIB,
     .maximum = 1 * GIB,
     .standard = "4MiB",
     .help = "So much is written down, in memory, before the market's state is written down anew. "
             "From these a worker of the daemon goes on where another one died; a longer journal "
             "takes more memory and a little less time. If the state itself is larger, that "
             "counts."},
    {.key = "arena",
     .kind = MKT_VALUE_SIZE,
     .offset = CONFIG(arena_bytes),
     .minimum = 16 * MIB,
     .maximum = 16 * TIB,
     .standard_text = "`memory`, at most `64GiB`",
     .help = "Size of one shared-memory arena. Arenas are sparse: only what is used costs memory. "
             "One piece of data can't "
             "be larger than an arena."},
    {.key = "numa",
     .kind = MKT_VALUE_NUMA,
     .offset = CONFIG(numa),
     .standard = "auto",
     .help = "`auto`: on a machine with several NUMA nodes each has arenas of its own, and what a "
             "process writes goes into memory of the node that it ran on when it connected, as "
             "long as that has some. `off`: the kernel places it."},
    {.key = "scratch",
     .kind = MKT_VALUE_SIZE,
     .offset = CONFIG(scratch_bytes),
     .maximum = 1 * GIB,
     .standard = "256KiB",
     .help = "What each writing process gets at its open, before it asks; `0` for nothing."},
    {.key = "full_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(full_timeout_ms),
     .maximum = LONGEST,
     .standard = "60s",
     .help = "How long a writer waits for memory to come free before its write fails."},
    {.key = "writer_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(writer_timeout_ms),
     .maximum = LONGEST,
     .standard = "30s",
     .help = "How long an open for reading waits while a writer has the file open and no version "
             "is published yet. The "
             "client's own file counts before the daemon's."},
    {.key = "join_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(join_timeout_ms),
     .minimum = SECOND,
     .maximum = LONGEST,
     .standard = "60s",
     .help = "How long the processes of one collective open wait for each other."},
    {.key = "commit_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(commit_timeout_ms),
     .minimum = SECOND,
     .maximum = LONGEST,
     .standard = "10m",
     .help = "How long the processes that close one file together wait for each other, counted "
             "from the last sign of life "
             "of any of them."},
    {.key = "idle_exit",
     .kind = MKT_VALUE_DURATION_OR_NEVER,
     .offset = CONFIG(idle_exit_ms),
     .minimum = SECOND,
     .maximum = LONGEST,
     .standard = "10m",
     .help = "After this time without a file in memory and without a connection the daemon ends; "
             "`never` to stay."},
    {.key = "idle_trim",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(idle_trim_ms),
     .minimum = SECOND / 10,
     .maximum = DAY,
     .standard = "3s",
     .help = "Memory that is free is kept ready for the next file. When no writer came for this "
             "time, or for three times "
             "the usual interval between files if that is longer (at most two minutes), it goes "
             "back to the system."},
    {.key = "drain_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(drain_timeout_ms),
     .minimum = SECOND,
     .maximum = LONGEST,
     .standard = "10m",
     .help = "Told to end by a signal (SIGTERM), the daemon saves what is owed first; it ends all "
             "the same when no file was completed for this time."},
    {.key = "ssd",
     .kind = MKT_VALUE_FOLDERS,
     .offset = CONFIG(ssd),
     .standard_text = "none",
     .help =
         "Folders on local disks, each best on one of its own, for a tier below memory: when "
         "memory "
         "runs short, data that nobody has open moves there, and is read from there. Without one, "
         "writers wait when memory is full. What lies there goes with the daemon; it is no copy on "
         "disk in the sense of mode `both`. A missing folder is made, but not its parent, and the "
         "log says so."},
    {.key = "ssd_size",
     .kind = MKT_VALUE_SIZE_OR_PERCENT,
     .offset = CONFIG(ssd_bytes),
     .minimum = 16 * MIB,
     .maximum = 1024 * TIB,
     .standard = "50%",
     .help = "What that tier may hold, but no more than is free there when the daemon starts. A "
             "percentage counts from what is free then."},
    {.key = "ssd_least",
     .kind = MKT_VALUE_SIZE,
     .offset = CONFIG(ssd_least_bytes),
     .minimum = 1,
     .maximum = 1 * GIB,
     .standard = "16KiB",
     .help = "With `ssd`: data that was written in smaller pieces stays in memory, since a piece "
             "takes at "
             "least 8 KiB there."},
    {.key = "high_watermark",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(high_percent),
     .minimum = 1,
     .maximum = 100,
     .standard = "80",
     .help = "With `ssd`: when so many percent of `memory` are in use, data begins to move out."},
    {.key = "low_watermark",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(low_percent),
     .minimum = 1,
     .maximum = 100,
     .standard = "70",
     .help =
         "With `ssd`: until no more than so many percent are; at most `high_watermark`, and that "
         "much where only a lower `high_watermark` is given."},
    {.key = "promote_after",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(promote_after),
     .maximum = 255,
     .standard = "2",
     .help =
         "With `ssd`: so many reads of a piece of data bring it back into memory as a whole, where "
         "there is room below `high_watermark`; `0`: none does."},
    {.key = "ssd_queue_depth",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(ssd_queue_depth),
     .minimum = 1,
     .maximum = 1024,
     .standard = "32",
     .help = "Reads or writes that one transfer has under way at a time on those disks."},
    {.key = "background",
     .kind = MKT_VALUE_BACKGROUND,
     .offset = CONFIG(background_rate),
     .minimum = 1,
     .maximum = 1024 * TIB,
     .standard = "full-delay",
     .help = "How files are written behind their writers. `full-delay`: the archiver pauses while "
             "programs read or write, unless memory is short. `rate` and a size: so many bytes a "
             "second. `none`: as fast as it can."},
    {.key = "max_objects",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_objects),
     .minimum = 1,
     .maximum = 10000000,
     .standard = "100000",
     .help = "Files in the market at one time; fewer if the limit of open descriptors is lower."},
    {.key = "max_writers",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_writers),
     .minimum = 1,
     .maximum = 1000000,
     .standard = "16384",
     .help = "Groups of processes that have a file open together, at one time."},
    {.key = "max_waiting",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_waiting),
     .minimum = 1,
     .maximum = 1000000,
     .standard = "65536",
     .help = "Calls that wait (for a file, a writer or memory) at one time."},
    {.key = "max_pieces",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_pieces),
     .minimum = 1,
     .maximum = 1000000000,
     .standard = "10000000",
     .help = "Separately written pieces in one version of a file."},
    {.key = "max_readers",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_readers),
     .minimum = 1,
     .maximum = MKT_STREAM_READERS_MAX,
     .standard = "64",
     .help = "Named readers of one stream."},
    {.key = "reader_grace",
     .kind = MKT_VALUE_DURATION,
     .offset = CONFIG(reader_grace_ms),
     .maximum = DAY,
     .standard = "10s",
     .help =
         "A named reader whose last process ended so long ago counts as gone: no queue waits for "
         "it, and no version is kept for it. Its position in the stream stays."},
    {.key = "max_connections",
     .kind = MKT_VALUE_COUNT,
     .offset = CONFIG(max_connections),
     .minimum = 2,
     .maximum = 1000000,
     .standard = "8192",
     .help = "Processes connected at one time; fewer if the limit of open descriptors is lower."},
    {.key = "log",
     .kind = MKT_VALUE_LEVEL,
     .offset = CONFIG(log_level),
     .standard = "info",
     .help = "What goes to the daemon's log, `h5marketd.log` in the market's folder."},
};

static const struct mkt_schema_field rule_fields[] = {
    {.key = "match",
     .kind = MKT_VALUE_PATTERN,
     .offset = RULE(pattern),
     .minimum = 1,
     .maximum = 4096,
     .of_files = true,
     .required = true,
     .help = "The files that the rule is for. Without a slash it matches a file's name, with one "
             "its absolute path. `*` "
             "and `?` don't match a slash, `**` does."},
    {.key = "mode",
     .kind = MKT_VALUE_MODE,
     .offset = RULE(mode),
     .of_files = true,
     .standard_text = "`both`",
     .help =
         "`both`: the file is in memory when its writer closes it, and on disk soon after. "
         "`memory`: it exists in memory only. `file`: it is an ordinary file, the market leaves "
         "it alone, and the rule says nothing of versions, readers or saving."},
    {.key = "durability",
     .kind = MKT_VALUE_DURABILITY,
     .offset = RULE(durability),
     .standard_text = "`async`",
     .help = "In mode `both`, what a writer's close waits for. `async`: for nothing, the version "
             "stays in memory until its file is safe. `close`: until the file is on disk. `none`: "
             "for nothing, and under pressure it may be replaced or dropped unsaved."},
    {.key = "priority",
     .kind = MKT_VALUE_COUNT,
     .offset = RULE(priority),
     .maximum = 1000000,
     .standard_text = "`0`",
     .help = "What is saved first: the highest."},
    {.key = "backup",
     .kind = MKT_VALUE_YES_NO,
     .offset = RULE(backup),
     .maximum = 1,
     .standard_text = "`false`",
     .help =
         "Whether the newest version is saved when the market is told to end (SIGTERM), also in "
         "mode `memory`, before what has no `backup`."},
    {.key = "pin",
     .kind = MKT_VALUE_YES_NO,
     .offset = RULE(pin),
     .maximum = 1,
     .standard_text = "`false`",
     .help = "Whether the data stays in memory where it would move to `ssd`."},
    {.key = "stage_in",
     .kind = MKT_VALUE_YES_NO,
     .offset = RULE(stage_in),
     .maximum = 1,
     .standard_text = "`false`",
     .help =
         "Whether the first open for reading of an ordinary file brings it into memory for all, "
         "if there is room. In mode `both` an open for writing does so by itself for files up to "
         "64 MiB, and with `stage_in` for larger ones, too."},
    {.key = "keep",
     .kind = MKT_VALUE_COUNT,
     .offset = RULE(keep),
     .minimum = 1,
     .maximum = 1000000,
     .standard_text = "the newest version of each file",
     .help =
         "How many versions to keep, counted over all files of a folder that the rule matches "
         "(of all folders, if its pattern has a slash): with `plt*` and `3` the three newest of "
         "a time series."},
    {.key = "until",
     .kind = MKT_VALUE_UNTIL,
     .offset = RULE(consumed),
     .minimum = 1,
     .maximum = 1,
     .standard_text = "by `keep`",
     .help =
         "`consumed`: a version stays until `readers` named readers have read it, all files of a "
         "folder that the rule matches taken together as one stream; its newest versions stay "
         "(`keep`, 1)."},
    {.key = "readers",
     .kind = MKT_VALUE_COUNT,
     .offset = RULE(readers),
     .minimum = 1,
     .maximum = MKT_STREAM_READERS_MAX,
     .standard_text = "all that are there and go through the stream, and at least one",
     .help = "How many named readers have to read a version of the stream; those that haven't come "
             "yet count, too."},
    {.key = "queue",
     .kind = MKT_VALUE_COUNT,
     .offset = RULE(queue),
     .minimum = 1,
     .maximum = 1000000,
     .standard_text = "no limit",
     .help =
         "A program that would write the stream's next version waits, when it creates the file or "
         "opens it for writing, while so many versions are unread. `until: consumed` goes with "
         "it."},
    {.key = "queue_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = RULE(queue_timeout_ms),
     .minimum = 1,
     .maximum = LONGEST,
     .standard_text = "`full_timeout`",
     .help = "How long it waits for a place in the queue before its create or open fails."},
    {.key = "end",
     .kind = MKT_VALUE_END,
     .offset = RULE(end_after),
     .minimum = 1,
     .maximum = 4000000000,
     .standard_text = "by `h5market end`",
     .help =
         "When the stream has ended, so that a reader that has had all is told so: after so many "
         "versions, or, with `exit`, when the last process that wrote it has gone."},
    {.key = "on_full",
     .kind = MKT_VALUE_ON_FULL,
     .offset = RULE(on_full),
     .standard_text = "`wait`",
     .help =
         "What a writer does where memory is full, and the tier below it (`ssd`). `wait`: until "
         "there is room, at most `full_timeout`. `fail`: its write fails at once. "
         "`drop-oldest`: the oldest version goes of the files that the rule matches, read or "
         "not, but none that a program has open, that is still to be saved, or that a reader "
         "with `deliver: all` or `until: consumed` is to get. `file`: a file that is created "
         "then is an ordinary one, and the program says so."},
    {.key = "deliver",
     .kind = MKT_VALUE_DELIVER,
     .offset = RULE(deliver),
     .minimum = 1,
     .maximum = 1000000,
     .standard_text = "`latest`",
     .help = "Which version of a path an open for reading gets. `latest`: the newest. `next`: the "
             "oldest that this named reader hasn't had. `all`: the same, and none may go before. "
             "`every N`: the first, and each Nth after it. The reader's own setting (`market "
             "deliver=next`) counts before the rule."},
    {.key = "reader",
     .kind = MKT_VALUE_NAME,
     .offset = RULE(reader),
     .minimum = 1,
     .maximum = MKT_READER_NAME_BYTES - 1,
     .standard_text = "the program's name",
     .help = "The name under which a program reads a stream. `none`: what it reads isn't counted."},
    {.key = "wait",
     .kind = MKT_VALUE_DURATION,
     .offset = RULE(wait_ms),
     .maximum = LONGEST,
     .of_files = true,
     .standard_text = "`0`",
     .help = "How long an open for reading waits for a file that nobody has written yet. The "
             "reader's own setting "
             "(`market wait=60`) counts before the rule."},
    {.key = "writer_timeout",
     .kind = MKT_VALUE_DURATION,
     .offset = RULE(writer_timeout_ms),
     .minimum = 1,
     .maximum = LONGEST,
     .of_files = true,
     .standard_text = "the resource of that name",
     .help = "How long an open for reading waits while a writer has the file open."},
    {.key = "publish",
     .kind = MKT_VALUE_PUBLISH,
     .offset = RULE(publish),
     .minimum = 1,
     .maximum = 1000000,
     .standard_text = "`close`",
     .help = "When readers get to see what was written. `close`: when the writer closes the file. "
             "`flush`: also at each "
             "flush. `close N`: from its Nth close on, for programs that create a file, close it "
             "and reopen it to write."},
    {.key = "exit_wait",
     .kind = MKT_VALUE_DURATION_OR_NEVER,
     .offset = RULE(exit_wait_ms),
     .minimum = SECOND,
     .maximum = LONGEST,
     .standard_text = "`60s`",
     .help = "In a batch step whose daemon was started by a program, a program's exit waits until "
             "the files that it wrote are on disk, since both end with the step. If saves fail for "
             "this time the exit goes on, with an error; `never`: it doesn't wait."},
    {.key = "datasets",
     .kind = MKT_VALUE_DATASETS,
     .offset = RULE(datasets),
     .minimum = 1,
     .maximum = MKT_DATASET_PATTERN_BYTES - 1,
     .standard_text = "all `both`",
     .help =
         "Which datasets of the file stay in memory when it is written to disk. Patterns are as "
         "in `match`, for a dataset's name or its path in the file, first match wins. What is "
         "of mode `memory` reads as fill values from the file on disk, where the attribute "
         "`H5MARKET_in_memory_only` marks it."},
};

const struct mkt_schema_table mkt_schema_resources = {
    .what = "the configuration",
    .fields = resource_fields,
    .fields_count = sizeof(resource_fields) / sizeof(resource_fields[0]),
};
const struct mkt_schema_table mkt_schema_rule = {
    .what = "a rule of 'files'",
    .fields = rule_fields,
    .fields_count = sizeof(rule_fields) / sizeof(rule_fields[0]),
};
