/* File systems that are not mounted: values from them are not absent but unknown. */
#include "base/json.h"
#include "capture/capture.h"
#include "capture/probe.h"

#include <string.h>

/* A later one lies in an earlier one. */
static const struct {
    const char *tree, *detail;
} trees[] = {{"/proc", "nothing is mounted on /proc"},
             {"/sys", "nothing is mounted on /sys"},
             {"/sys/fs/cgroup", "nothing is mounted on /sys/fs/cgroup"}};
enum { TREES = sizeof trees / sizeof *trees, GROUPS = TREES - 1 };

static int has_entries(const struct rp_probe *p, const char *tree)
{
    struct rp_probe quiet = *p;
    RP_DIRLIST d = {0};
    quiet.record = NULL; /* the names of processes and groups are private */
    rp_dirlist_read(&d, &quiet, tree, 1);
    int seen = d.n > 0 || d.state == RP_STATE_DENIED;
    return seen;
}

static json_t *ask_mounted(const struct rp_probe *p, const char *tree)
{
    return json_boolean(has_entries(p, tree));
}

/* For records without an answer and composed machines: a missing directory of control groups may only mean that nothing
 * was read there. */
static int is_mounted(const struct rp_probe *p, int i)
{
    RP_JSON *answer = rp_probe_query(p, "mounted", trees[i].tree, ask_mounted);
    return json_is_boolean(answer) ? json_is_true(answer) : i == GROUPS || has_entries(p, trees[i].tree);
}

static int is_from_tree(const json_t *value, const char *tree)
{
    const char *source = rp_leaf(value).source;
    size_t n = strlen(tree);
    return strncmp(source, tree, n) == 0 && source[n] == '/';
}

static void mark_denied(json_t *at, int tree)
{
    const struct rp_leaf leaf = rp_leaf(at);
    const char *name;
    json_t *child;
    if (!*leaf.state) {
        json_object_foreach(at, name, child)
            mark_denied(child, tree);
    } else if (leaf.kind == RP_LEAF_ABSENT && is_from_tree(at, trees[tree].tree)) {
        json_object_set_new(at, "state", json_string(rp_state_name(RP_STATE_DENIED)));
        json_object_set_new(at, "detail", json_string(trees[tree].detail));
    }
}

void rp_mark_unseen(const struct rp_probe *p, json_t *probes)
{
    for (int i = 0; i < TREES; i++)
        if (!is_mounted(p, i))
            mark_denied(probes, i);
}

static int count_with_detail(const json_t *at, const char *detail)
{
    const struct rp_leaf leaf = rp_leaf(at);
    const char *name;
    json_t *child;
    int n = 0;
    if (*leaf.state)
        return strcmp(leaf.detail, detail) == 0;
    json_object_foreach((json_t *)at, name, child) /* jansson iterates over non-const objects only */
        n += count_with_detail(child, detail);
    return n;
}

const char *rp_capture_unseen(const json_t *probes, int i, int *values)
{
    if (i >= TREES)
        return NULL;
    *values = count_with_detail(probes, trees[i].detail);
    return trees[i].tree;
}
