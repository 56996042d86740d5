/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/daemon/nodes.h"
#include "core/config/config.h"
#include "core/market/market.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KERNELS_LIST "/sys/devices/system/node/has_memory"

/* The kernel's list of nodes with memory is one number, or it has no list: then there is nothing to
 * find out, and the topology, which takes milliseconds, isn't read. */
static bool is_one_node(void)
{
    char list[64] = "";
    FILE *file;

    if (getenv("HWLOC_XMLFILE"))
        return false;
    file = fopen(KERNELS_LIST, "re");
    if (file && !fgets(list, sizeof(list), file))
        list[0] = '\0';
    if (file)
        fclose(file);
    return !strpbrk(list, "-,");
}

/* hwloc's plug-ins ask graphics cards and the like, which is slow and nobody's business here. */
static bool load(hwloc_topology_t *topology_out)
{
    bool had_path = getenv("HWLOC_PLUGINS_PATH");
    hwloc_topology_t topology;
    int failed;

    setenv("HWLOC_PLUGINS_PATH", "/dev/null", 0);
    failed = hwloc_topology_init(&topology);
    if (!had_path)
        unsetenv("HWLOC_PLUGINS_PATH");
    if (failed)
        return false;
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return false;
    }
    *topology_out = topology;
    return true;
}

static bool is_ordinary(hwloc_obj_t node)
{
    return node->attr->numanode.local_memory > 0 &&
           (!node->subtype || strcmp(node->subtype, "DRAM") == 0) &&
           !hwloc_obj_get_info_by_name(node, "DAXDevice");
}

/* Memory of another kind may be near to the same processors without a label. A processor's own node
 * is the one that the fewest others share, and the kernel numbers it before those that have no
 * processors. */
static bool is_nearer(hwloc_obj_t node, hwloc_obj_t than)
{
    int shared = hwloc_bitmap_weight(node->cpuset), others;

    if (!than)
        return true;
    others = hwloc_bitmap_weight(than->cpuset);
    return shared != others ? shared < others : node->os_index < than->os_index;
}

static hwloc_obj_t find_node(hwloc_topology_t topology, unsigned cpu)
{
    hwloc_obj_t node = NULL, found = NULL;

    while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)))
        if (is_ordinary(node) && hwloc_bitmap_isset(node->cpuset, cpu) && is_nearer(node, found))
            found = node;
    return found;
}

static bool add_cpu(struct mkt_nodes *nodes, hwloc_obj_t node, uint32_t cpu)
{
    uint32_t at = 0;

    while (at < nodes->count && nodes->node[at].number != node->os_index)
        at++;
    if (at == MKT_NODES_MAX)
        return false;
    if (at == nodes->count)
        nodes->node[nodes->count++] = (struct mkt_node){
            .number = node->os_index, .memory_bytes = node->attr->numanode.local_memory};
    nodes->node[at].cpus++;
    nodes->of_cpu[cpu] = node->os_index;
    return true;
}

static const char *fill(struct mkt_nodes *nodes, hwloc_topology_t topology)
{
    hwloc_obj_t pu = NULL, node;
    int last = hwloc_bitmap_last(hwloc_topology_get_topology_cpuset(topology));

    nodes->cpus = last < 0 ? 0 : (uint32_t)last + 1;
    nodes->of_cpu = malloc((nodes->cpus + 1) * sizeof(*nodes->of_cpu));
    if (!nodes->of_cpu)
        return "out of memory";
    memset(nodes->of_cpu, 0xff, nodes->cpus * sizeof(*nodes->of_cpu)); /* MKT_NO_NODE */
    while ((pu = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, pu))) {
        node = find_node(topology, pu->os_index);
        if (node && !add_cpu(nodes, node, pu->os_index))
            return "this machine has more NUMA nodes than h5marketd can tell apart";
    }
    return nodes->count > 1 ? NULL : "this machine has one NUMA node with processors and memory";
}

void mkt_nodes_find(bool wanted, struct mkt_nodes *nodes_out)
{
    struct mkt_nodes *nodes = nodes_out;
    hwloc_topology_t topology;

    *nodes = (struct mkt_nodes){.count = 0};
    if (!wanted)
        nodes->why_none = "`numa: off`";
    else if (is_one_node())
        nodes->why_none = "this machine has one NUMA node";
    else if (!load(&topology))
        nodes->why_none = "this machine's topology can't be read";
    else {
        nodes->why_none = fill(nodes, topology);
        hwloc_topology_destroy(topology);
    }
    if (nodes->why_none)
        nodes->count = 0;
}

void mkt_nodes_fini(struct mkt_nodes *nodes)
{
    free(nodes->of_cpu);
    nodes->of_cpu = NULL;
}

uint32_t mkt_nodes_of_cpu(const struct mkt_nodes *nodes, uint32_t cpu)
{
    return nodes->count > 1 && cpu < nodes->cpus ? nodes->of_cpu[cpu] : MKT_NO_NODE;
}

const char *mkt_nodes_text(const struct mkt_nodes *nodes, char *text, size_t capacity)
{
    int at = snprintf(text, capacity, "NUMA nodes");
    char size[32];

    if (nodes->count == 0)
        return nodes->why_none;
    for (uint32_t i = 0; i < nodes->count && at > 0 && (size_t)at < capacity; i++) {
        const struct mkt_node *node = &nodes->node[i];

        at += snprintf(text + at, capacity - (size_t)at, "%s %u (%s)", i == 0 ? "" : ",",
                       node->number, mkt_config_show_size(node->memory_bytes, size, sizeof(size)));
    }
    return text;
}
