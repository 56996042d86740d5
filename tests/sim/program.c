/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the programs of a schedule do: a few jobs each, the same on all ranks.
 */
#include "tests/sim/sim.h"

#include <string.h>

static void make_write(struct job *job, unsigned size)
{
    job->kind = JOB_WRITE;
    job->intent = one_in(3)   ? MKT_INTENT_READ_WRITE
                  : one_in(6) ? MKT_INTENT_CREATE_EXCL
                              : MKT_INTENT_CREATE;
    job->mode = one_in(20)                        ? MKT_MODE_FILE
                : one_in(world.archivers ? 2 : 4) ? MKT_MODE_BOTH
                                                  : MKT_MODE_MEMORY;
    job->durability = (uint32_t)chance(0, MKT_DURABILITY_NONE);
    if (world.archivers == 0 && job->durability == MKT_DURABILITY_CLOSE) /* that would never end */
        job->durability = MKT_DURABILITY_ASYNC;
    job->keep = one_in(4) ? (uint32_t)chance(1, 4) : 0;
    job->publish_close = one_in(6) ? (uint32_t)chance(1, 3) : 0;
    job->rounds = one_in(3) ? (unsigned)chance(2, MAX_ROUNDS) : 1;
    job->operations = (unsigned)chance(0, 6);
    job->unchanged = one_in(12);
    job->drops_array = one_in(5);
    job->closes = one_in(15);
    job->disagrees = one_in(20);
    job->failing_rank = one_in(12) ? (int)chance(0, size - 1) : -1;
    job->lazy_rank = one_in(8) && size > 1 && job->intent == MKT_INTENT_READ_WRITE ? 0 : -1;
    if (job->unchanged) {
        job->rounds = 1;
        job->drops_array = false;
    }
    if (job->lazy_rank == 0)
        job->drops_array = false;
}

static void make_read(struct job *job)
{
    job->kind = JOB_READ;
    job->intent = MKT_INTENT_READ;
    job->mode = one_in(30) ? MKT_MODE_FILE : MKT_MODE_MEMORY;
    job->wait_ms = one_in(2) ? 0 : (uint32_t)chance(1, 1000);
    job->version = one_in(6) ? chance(1, 4) : 0;
    job->after_now = one_in(8);
    job->operations = (unsigned)chance(0, 5);
}

static void make_job(struct job *job, unsigned size)
{
    job->path = (unsigned)chance(0, one_in(2) ? 1 : PATHS - 1);
    job->writer_timeout_ms = (uint32_t)chance(0, 800);
    job->failing_rank = job->lazy_rank = -1;
    switch (chance(0, 19)) {
    case 0:
        job->kind = JOB_HOG;
        job->operations = (unsigned)chance(0, 30);
        break;
    case 1:
        job->kind = JOB_WITHDRAW;
        break;
    case 2:
        job->kind = JOB_REMOVE;
        break;
    case 3:
        job->kind = JOB_PROBE;
        job->intent = MKT_INTENT_PROBE;
        job->mode = MKT_MODE_MEMORY;
        break;
    case 4:
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        make_read(job);
        break;
    default:
        make_write(job, size);
        break;
    }
}

static struct process *make_process(struct program *program, unsigned rank)
{
    struct process *process = &world.process[world.processes];

    memset(process, 0, sizeof(*process));
    process->number = world.processes++;
    process->session = 1000 + process->number;
    process->program = program;
    process->rank = rank;
    process->fill = 0x5e55000000000000u | (uint64_t)process->number << 32;
    return process;
}

static void make_archiver(void)
{
    struct program *program = &world.program[world.programs++];

    *program = (struct program){.size = 1, .jobs = 1, .is_archiver = true};
    program->job[0].kind = JOB_ARCHIVE;
    program->rank[0] = make_process(program, 0);
    do
        world_session_begin(program->rank[0]);
    while (!program->rank[0]->exists);
}

static void make_processes(struct program *program)
{
    for (unsigned r = 0; r < program->size; r++) {
        program->rank[r] = make_process(program, r);
        world_session_begin(program->rank[r]);
    }
}

/* Some that write one path step by step, and some that follow. */
static void make_stream(void)
{
    struct stream_setup setup;
    unsigned writers = one_in(4) ? 2 : 1, readers = (unsigned)chance(1, 4);

    stream_set_up(&setup);
    world.keeps_sets = true;
    for (unsigned p = 0; p < writers + readers; p++) {
        struct program *program = &world.program[world.programs++];

        stream_make(program, &setup, p < writers ? 0 : 1);
        make_processes(program);
    }
}

void programs_make(void)
{
    bool hostile = one_in(4), streams = one_in(2);

    world.archivers = (unsigned)chance(0, 2);

    world.programs = streams ? (unsigned)chance(0, 2) : (unsigned)chance(2, 5);
    for (unsigned p = 0; p < world.programs; p++) {
        struct program *program = &world.program[p];

        program->size = one_in(2) ? 1 : (unsigned)chance(2, MAX_RANKS);
        program->jobs = (unsigned)chance(1, MAX_JOBS);
        program->hostile = hostile && p == 0;
        for (unsigned j = 0; j < program->jobs; j++) {
            make_job(&program->job[j], program->size);
            world.keeps_sets |= program->job[j].keep > 0 || program->job[j].publish_close > 1;
            world.hides_versions |= program->job[j].publish_close > 1;
        }
        make_processes(program);
    }
    if (streams)
        make_stream();
    for (unsigned a = 0; a < world.archivers; a++)
        make_archiver();
    world.has_hostile = hostile;
}
