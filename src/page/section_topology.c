/* A drawing of every kind of machine: NUMA nodes with their GPUs and network adapters, NVLinks between GPUs; processors
 * if there are no GPUs. */
#include "page/section.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS_MAX = 32, NICS_MAX = 16, NODES_MAX = 16, ROW = 4, BOX_W = 84, BOX_H = 46, GAP = 12, LEFT = 12, WIDTH = 408,
       NODES_DRAWN = 4 /* of a run: those that look like none before */ };

struct box {
    char name[24];   /* as in the matrix: "GPU0", "mlx5_0" */
    const json_t *of; /* values of the device */
    int node, is_gpu;
    double x, y;      /* its corner */
};
struct drawing {
    struct box box[GPUS_MAX + NICS_MAX];
    int n, gpus;
    double top[NODES_MAX], bottom[NODES_MAX], height;
    int node[NODES_MAX], nodes;
};

static void put_text(struct rp_buf *out, double x, double y, const char *class, const char *s)
{
    rp_buf_printf(out, "<text x=\"%.0f\" y=\"%.0f\" class=\"%s\">", x, y, class);
    rp_html(out, s, strlen(s), 44);
    rp_buf_puts(out, "</text>");
}

/* The word as a small number, or -1. */
static int count_of(const char *word)
{
    char *end;
    long n = word ? strtol(word, &end, 10) : -1;
    return word && *word >= '0' && *word <= '9' && !*end && n < 4096 ? (int)n : -1;
}

static int node_of(const json_t *device, const char *key)
{
    double number;
    const char *word = rp_known_text(device, key);
    if (rp_known_number(device, key, &number) == 0 && number >= 0 && number < 4096)
        return (int)number;
    return count_of(word);
}

static void add_box(struct drawing *d, const char *name, const json_t *of, int node, int is_gpu)
{
    struct box *b = &d->box[d->n++];
    *b = (struct box){.of = of, .node = node, .is_gpu = is_gpu};
    snprintf(b->name, sizeof b->name, "%.20s", name);
    d->gpus += is_gpu;
}

static void find_devices(struct drawing *d, const json_t *probes)
{
    const char *name;
    json_t *one;
    char key[16], shown[16];
    for (int i = 0; i < GPUS_MAX; i++) {
        snprintf(key, sizeof key, "gpu%d", i);
        snprintf(shown, sizeof shown, "GPU%d", i);
        one = json_object_get(rp_group(probes, "gpu.devices"), key);
        if (one)
            add_box(d, shown, one, node_of(one, "numa_affinity"), 1);
    }
    json_object_foreach((json_t *)rp_group(probes, "rdma.devices"), name, one)
        if (d->n - d->gpus < NICS_MAX && json_is_object(one))
            add_box(d, name, one, node_of(one, "numa_node"), 0);
    if (d->n > d->gpus)
        return;
    json_object_foreach((json_t *)rp_group(probes, "network.interfaces"), name, one)
        if (d->n - d->gpus < NICS_MAX && rp_known(one, "driver") && !rp_known_is(one, "operational", "down"))
            add_box(d, name, one, node_of(one, "numa_node"), 0);
}

/* One node below the other, each with its devices in rows of four: narrow enough for a phone. */
static void place_boxes(struct drawing *d)
{
    double y = 8;
    for (int i = 0; i < d->n; i++) {
        int k = 0;
        while (k < d->nodes && d->node[k] != d->box[i].node)
            k++;
        if (k == d->nodes && d->nodes < NODES_MAX)
            d->node[d->nodes++] = d->box[i].node;
    }
    for (int k = 0; k < d->nodes; k++) {
        int column = 0;
        d->top[k] = y;
        y += 34;
        for (int i = 0; i < d->n; i++) {
            int last = k == d->nodes - 1; /* devices without a node are in the last one */
            if (d->box[i].node != d->node[k] && !(last && d->box[i].x == 0 && d->box[i].y == 0))
                continue;
            if (column == ROW) {
                column = 0;
                y += BOX_H + GAP + 14;
            }
            d->box[i].x = LEFT + column++ * (BOX_W + GAP) + GAP / 2.0;
            d->box[i].y = y;
        }
        y += BOX_H + GAP;
        d->bottom[k] = y;
        y += 30;
    }
    d->height = y - 22;
}

/* ---- links ---- */

/* "NV2" between two devices, from the matrix. */
static const char *link_between(const json_t *probes, const struct drawing *d, int i, int j)
{
    const json_t *columns = rp_known(probes, "topology.matrix.columns");
    const json_t *cells = rp_leaf(json_object_get(rp_group(probes, "topology.matrix.rows"), d->box[i].name)).value;
    for (size_t k = 0; k < json_array_size(columns); k++) {
        const char *name = json_string_value(json_array_get(columns, k));
        if (name && strcmp(name, d->box[j].name) == 0)
            return json_string_value(json_array_get(cells, k));
    }
    return NULL;
}

static int links_of(const char *cell)
{
    return cell && strncmp(cell, "NV", 2) == 0 && count_of(cell + 2) > 0 ? count_of(cell + 2) : 0;
}

static int has_switch(const struct drawing *d)
{
    const char *name;
    json_t *one;
    for (int i = 0; i < d->gpus; i++)
        json_object_foreach((json_t *)rp_group(d->box[i].of, "nvlinks"), name, one)
            if (rp_known_is(one, "remote_type", "switch"))
                return 1;
    return 0;
}

/* Straight between rows, bent within a row so that the boxes in between stay visible. */
static void link_line(struct rp_buf *out, const struct box *a, const struct box *b, int n)
{
    double ax = a->x + BOX_W / 2.0, bx = b->x + BOX_W / 2.0, ay = a->y + BOX_H / 2.0, by = b->y + BOX_H / 2.0;
    double width = fmin(1 + n, 6);
    if (fabs(a->y - b->y) > 1)
        rp_buf_printf(out, "<path class=\"nvlink\" stroke-width=\"%.0f\" d=\"M%.0f %.0fL%.0f %.0f\"/>", width, ax,
                      a->y < b->y ? a->y + BOX_H : a->y, bx, a->y < b->y ? b->y : b->y + BOX_H);
    else if (fabs(ax - bx) < BOX_W + GAP + 1)
        rp_buf_printf(out, "<path class=\"nvlink\" stroke-width=\"%.0f\" d=\"M%.0f %.0fL%.0f %.0f\"/>", width, ax, ay,
                      bx, by);
    else
        rp_buf_printf(out, "<path class=\"nvlink\" stroke-width=\"%.0f\" d=\"M%.0f %.0fQ%.0f %.0f %.0f %.0f\"/>", width,
                      ax, a->y, (ax + bx) / 2, a->y - 22, bx, b->y);
}

static void draw_links(struct rp_buf *out, const struct drawing *d, const json_t *probes)
{
    if (has_switch(d)) {
        double x = LEFT + ROW * (BOX_W + GAP) - 1, top = d->box[0].y, bottom = top;
        int most = 0;
        for (int i = 0; i < d->gpus; i++) {
            const struct box *b = &d->box[i];
            bottom = fmax(bottom, b->y + BOX_H);
            rp_buf_printf(out, "<path class=\"nvlink\" stroke-width=\"2\" d=\"M%.0f %.0fV%.0fH%.0f\"/>",
                          b->x + BOX_W / 2.0, b->y + BOX_H, b->y + BOX_H + 6, x + 5);
            for (int j = 0; j < d->gpus; j++)
                most = links_of(link_between(probes, d, i, j)) > most ? links_of(link_between(probes, d, i, j)) : most;
        }
        rp_buf_printf(out, "<rect class=\"switch\" x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"%.0f\" rx=\"3\"/>", x,
                      top, bottom - top + 8);
        rp_buf_printf(out,
                      "<text class=\"said\" text-anchor=\"middle\" transform=\"translate(%.0f %.0f) "
                      "rotate(90)\">NVSwitch, %d links each</text>",
                      x + 3.5, (top + bottom) / 2, most);
        return;
    }
    for (int i = 0; i < d->gpus; i++)
        for (int j = i + 1; j < d->gpus; j++)
            if (links_of(link_between(probes, d, i, j)))
                link_line(out, &d->box[i], &d->box[j], links_of(link_between(probes, d, i, j)));
}

/* ---- boxes ---- */

static void draw_box(struct rp_buf *out, const struct box *b)
{
    RP_BUF line = {0};
    double generation, width;
    const char *name = rp_known_text(b->of, "name");
    rp_buf_printf(out, "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" rx=\"6\"/>",
                  b->is_gpu ? "gpu" : "nic", b->x, b->y, BOX_W, BOX_H);
    put_text(out, b->x + 8, b->y + 18, "name", b->name);
    if (b->is_gpu && rp_known_number(b->of, "pcie_width", &width) == 0 &&
        rp_known_number(b->of, "pcie_generation_max", &generation) == 0)
        rp_buf_printf(&line, "PCIe %.0f x%.0f", generation, width);
    else if (!b->is_gpu && rp_known_text(b->of, "driver"))
        rp_buf_printf(&line, "%.12s", rp_known_text(b->of, "driver"));
    else if (name)
        rp_buf_printf(&line, "%.12s", name);
    put_text(out, b->x + 8, b->y + 35, "small", rp_buf_text(&line));
}

static void put_node(struct rp_buf *out, const json_t *probes, int node)
{
    char path[48], size[32];
    const char *cpus;
    double bytes;
    if (node < 0) {
        rp_buf_puts(out, "unknown NUMA node");
        return;
    }
    rp_buf_printf(out, "NUMA node %d", node);
    snprintf(path, sizeof path, "memory.nodes.node%d", node);
    const json_t *values = rp_value_at(probes, path);
    if ((cpus = rp_known_text(values, "cpus")))
        rp_buf_printf(out, ", CPUs %.24s", cpus);
    if (rp_known_number(values, "total", &bytes) == 0) {
        rp_show_number(size, bytes, "B");
        rp_buf_printf(out, ", %s", size);
    }
}

/* <figure> with an id that is unique on the page; height: of the drawing. */
static void begin_figure(struct rp_section *s, const char *id, const char *caption, const char *summary, double height)
{
    rp_buf_printf(s->out, "<figure id=\"b%d-%s", s->index, id);
    if (s->node)
        rp_buf_printf(s->out, "-node%d", s->node);
    rp_buf_printf(s->out,
                  "\"><figcaption><b>%s</b></figcaption><svg class=\"topology\" role=\"img\" aria-label=\"%s\" "
                  "viewBox=\"0 0 %d %.0f\">",
                  caption, summary, WIDTH, height);
}

static void draw_topology(struct rp_section *s, const struct drawing *d, const json_t *probes, const char *summary)
{
    begin_figure(s, "drawing", "Devices and their connections", summary, d->height);
    for (int k = 0; k < d->nodes; k++) {
        rp_buf_printf(s->out, "<rect class=\"node\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%.0f\" rx=\"8\"/>",
                      LEFT - 6, d->top[k], ROW * (BOX_W + GAP) + 6, d->bottom[k] - d->top[k]);
        if (k && d->node[k] >= 0 && d->node[k - 1] >= 0)
            rp_buf_printf(s->out, "<path class=\"bus\" d=\"M%d %.0fV%.0f\"/>", LEFT + 20, d->bottom[k - 1], d->top[k]);
    }
    draw_links(s->out, d, probes);
    for (int k = 0; k < d->nodes; k++) { /* over the links */
        RP_BUF words = {0};
        put_node(&words, probes, d->node[k]);
        put_text(s->out, LEFT + 6, d->top[k] + 20, "small", rp_buf_text(&words));
    }
    for (int i = 0; i < d->n; i++)
        draw_box(s->out, &d->box[i]);
    rp_buf_puts(s->out, "</svg></figure>\n");
}

/* The matrix as a table: exact, and readable without the drawing. */
static void put_matrix(struct rp_section *s, const json_t *probes)
{
    const json_t *columns = rp_known(probes, "topology.matrix.columns");
    const char *name;
    json_t *row, *cell;
    size_t i;
    if (!json_array_size(columns))
        return;
    rp_buf_puts(s->out,
                "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"Connections between devices\"><table "
                "class=\"matrix\"><caption>Connection between each two devices</caption><thead><tr><td></td>");
    json_array_foreach((json_t *)columns, i, cell) {
        rp_buf_puts(s->out, "<th scope=\"col\">");
        rp_html_text(s->out, json_is_string(cell) ? json_string_value(cell) : "?");
        rp_buf_puts(s->out, "</th>");
    }
    rp_buf_puts(s->out, "</tr></thead><tbody>\n");
    json_object_foreach((json_t *)rp_group(probes, "topology.matrix.rows"), name, row) {
        rp_buf_puts(s->out, "<tr><th scope=\"row\">");
        rp_html_text(s->out, name);
        rp_buf_puts(s->out, "</th>");
        json_array_foreach((json_t *)rp_leaf(row).value, i, cell) {
            RP_BUF pointer = {0};
            rp_buf_puts(&pointer, "/probes/topology/matrix/rows");
            rp_pointer_add(&pointer, name);
            rp_buf_printf(&pointer, "/value/%zu", i);
            rp_buf_printf(s->out, "<td%s>", links_of(json_string_value(cell)) ? " class=\"nv\"" : "");
            rp_before_figure(s, rp_buf_text(&pointer), "t");
            rp_buf_puts(s->out, "</td>");
        }
        rp_buf_puts(s->out, "</tr>\n");
    }
    rp_html_table_end(s->out);
    rp_buf_puts(
        s->out,
        "<p class=\"note\">NV# is that number of NVLinks; PIX, PXB, PHB, NODE and SYS cross increasingly more of PCIe "
        "and the processors.</p>\n");
}

/* Sockets, cores, threads and caches. */
static void put_processors(struct rp_section *s)
{
    static const char *const rows[][2] = {
        {"sockets", "/probes/cpu/sockets"},
        {"NUMA nodes, by number", "/probes/memory/numa_nodes"},
        {"cores", "/probes/cpu/cores"},
        {"threads", "/probes/cpu/threads"},
        {"level 1 data cache, each", "/probes/cpu/caches/l1d/size"},
        {"level 2 cache, each", "/probes/cpu/caches/l2/size"},
        {"level 3 cache, each", "/probes/cpu/caches/l3/size"},
        {"CPUs that share the first level 3 cache", "/probes/cpu/caches/l3/shared_by"},
    };
    rp_html_table(s->out, "Processors of the machine", "what|value");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rp_leaf(rp_pointer(s->before, rows[i][1])).kind != RP_LEAF_KNOWN)
            continue;
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s</th><td>", rows[i][0]);
        rp_before_figure(s, rows[i][1], "u");
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_html_table_end(s->out);
}

/* A machine without GPUs: the cores of each node as small squares in the box of the node. */
static void draw_cores(struct rp_section *s, const json_t *probes)
{
    double cores, nodes = (double)json_object_size(rp_group(probes, "memory.nodes")), l3 = 0;
    if (rp_known_number(probes, "cpu.cores", &cores) < 0 || cores < 1 || cores > 4096)
        return;
    if (nodes < 1 || nodes > NODES_MAX || fmod(cores, nodes) != 0)
        nodes = 1;
    int each = (int)(cores / nodes), columns = each < 16 ? each : 16, rows = (each + columns - 1) / columns, side = 20;
    int tall = 34 + rows * (side + 4) + 30;
    char size[32] = "", summary[120];
    if (rp_known_number(probes, "cpu.caches.l3.size", &l3) == 0)
        rp_show_number(size, l3, "B");
    RP_FORMAT(summary, "%.0f cores in %.0f NUMA nodes; the table below has the figures.", cores, nodes);
    begin_figure(s, "cores", "Processors", summary, (int)nodes * (tall + 12) + 8);
    for (int k = 0; k < (int)nodes; k++) {
        int y = 6 + k * (tall + 12);
        RP_BUF words = {0};
        put_node(&words, probes, k);
        rp_buf_printf(s->out, "<rect class=\"node\" x=\"6\" y=\"%d\" width=\"396\" height=\"%d\" rx=\"8\"/>", y, tall);
        put_text(s->out, 18, y + 20, "small", rp_buf_text(&words));
        for (int i = 0; i < each; i++)
            rp_buf_printf(s->out, "<rect class=\"gpu\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\"/>",
                          18 + i % columns * (side + 4), y + 32 + i / columns * (side + 4), side, side);
        rp_buf_puts(&words, "");
        RP_BUF below = {0};
        rp_buf_printf(&below, "%d core%s%s%s", each, each == 1 ? "" : "s", *size ? ", level 3 cache " : "", size);
        put_text(s->out, 18, y + tall - 10, "small", rp_buf_text(&below));
    }
    rp_buf_puts(s->out, "</svg></figure>\n");
}

static void draw_machine(struct rp_section *s)
{
    const json_t *probes = rp_group(s->before, "probes");
    struct drawing *d = rp_alloc(sizeof *d);
    char summary[200];
    find_devices(d, probes);
    place_boxes(d);
    if (d->gpus) {
        snprintf(summary, sizeof summary,
                 "%d GPUs and %d network adapters in %d NUMA nodes%s; the table below has every connection.", d->gpus,
                 d->n - d->gpus, d->nodes, has_switch(d) ? ", GPUs joined by NVSwitches" : "");
        draw_topology(s, d, probes, summary);
        put_matrix(s, probes);
    } else {
        draw_cores(s, probes);
        put_processors(s);
    }
    free(d);
}

/* ---- several nodes ---- */

/* Does a drawing show the value that differs? */
static int is_drawn(const struct rp_difference *d)
{
    const char *field = d->field;
    static const char *const devices[] = {"gpu.devices.", "rdma.", "network.interfaces."};
    static const char *const values[] = {".numa_affinity",       ".numa_node", ".pcie_width",
                                         ".pcie_generation_max", ".driver",    ".remote_type"};
    static const char *const processors[] = {"topology.",  "cpu.sockets",       "cpu.cores",    "cpu.threads",
                                             "cpu.caches.", "memory.numa_nodes", "memory.nodes."};
    int of_device = 0, shown = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        of_device |= strncmp(field, devices[i], strlen(devices[i])) == 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        shown |= of_device && rp_ends_with(field, values[i]);
    for (size_t i = 0; i < sizeof processors / sizeof *processors && !d->varies; i++)
        shown |= strncmp(field, processors[i], strlen(processors[i])) == 0;
    return shown;
}

/* Would they be drawn alike? What `repro capture diff` takes for equal is equal here. */
static int is_alike(const json_t *a, const json_t *b)
{
    struct rp_err ignored;
    RP_CAPTURE_COMPARISON c = {0};
    if (rp_capture_compare(&c, a, b, &ignored) < 0)
        return 0;
    for (int64_t i = 0; i < c.different_n + c.one_side_n; i++)
        if (is_drawn(i < c.different_n ? &c.different[i] : &c.one_side[i - c.different_n]))
            return 0;
    return 1;
}

enum { NOT_DRAWN = -1 };

/* The nodes with that number in `like`, which looks like another one or is not drawn. */
static void put_others(struct rp_section *s, const int *like, int nodes, int number)
{
    RP_FREE char *in = rp_alloc((size_t)nodes);
    char list[120];
    int n = 0;
    for (int i = 0; i < nodes; i++)
        n += in[i] = i != number && like[i] == number;
    rp_list_numbers(list, sizeof list, in, nodes);
    if (n && number == NOT_DRAWN)
        rp_buf_printf(s->out,
                      "<p>Not drawn: node%s %s. <code>repro inspect BUNDLE env/nodeN.before.json</code> prints what "
                      "was captured there.</p>\n",
                      rp_s(n), list);
    else if (n)
        rp_buf_printf(s->out, "<p>Alike: node%s %s.</p>\n", rp_s(n), list);
}

void rp_section_topology(struct rp_section *s)
{
    const int nodes = s->b->kept->run.nodes;
    RP_FREE int *like = rp_alloc((size_t)nodes * sizeof *like); /* the drawn node that looks like it, perhaps itself */
    int first[NODES_DRAWN], drawn = 0;
    for (int node = 0; node < nodes; node++) {
        const json_t *own = rp_section_of_node(s, node).before;
        like[node] = NOT_DRAWN;
        for (int k = 0; k < drawn && own && like[node] == NOT_DRAWN; k++)
            if (is_alike(rp_section_of_node(s, first[k]).before, own))
                like[node] = first[k];
        if (own && like[node] == NOT_DRAWN && drawn < NODES_DRAWN)
            like[node] = first[drawn++] = node;
    }
    for (int k = 0; k < drawn; k++) {
        struct rp_section own = rp_section_of_node(s, first[k]);
        if (nodes > 1)
            rp_buf_printf(s->out, "<h4>Node %d</h4>\n", first[k]);
        draw_machine(&own);
        put_others(s, like, nodes, first[k]);
    }
    put_others(s, like, nodes, NOT_DRAWN);
}
