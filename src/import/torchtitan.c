/* torchtitan, perhaps colored:
 *   [titan] 2025-06-04 11:02:49,027 - root - INFO - step: 10  loss: 10.4260  memory: ...  tps: 6,344  tflops: ...
 * "tps" is tokens per second *and device*, without evaluation and checkpoints; older versions call it wps. The
 * times of the lines count. Later versions give the batch in tokens: it becomes sequences if it is a whole number of
 * them. */
#include "import/import.h"
#include "import/scan.h"
#include "import/window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STAMP 23 /* characters of "2025-06-04 11:02:49,027" */

static const struct {
    const char *mark, *fact;
} settings[] = {
    {" local batch size ", "batch_per_device"},
    {" global batch size ", "global_batch"},
    {" gradient accumulation steps ", "accumulation"},
    {" sequence length ", "sequence_length"},
    {" maximum context length ", "sequence_length"},
};

struct titan {
    double latest;        /* time of the last step seen */
    int64_t second;       /* line where another training begins; 0: none */
    int64_t lone_rates;   /* rates of one device, of a number that is unknown */
};

/* Colors, in place: ESC [ ... m. */
static void remove_colors(char *line)
{
    char *to = line;
    for (const char *p = line; *p;) {
        if (p[0] == '\x1b' && p[1] == '[') {
            p += 2;
            p += strspn(p, "0123456789;");
            p += *p == 'm';
        } else {
            *to++ = *p++;
        }
    }
    *to = 0;
}

/* The time before " - root - INFO - ", of this line and not of a tag before it. */
static double time_before(const char *line, const char *mark)
{
    double t;
    int of_day;
    const char *at = mark - strlen(" - root - INFO - ");
    if (at < line + STAMP || strncmp(at, " - root - INFO - ", 8) != 0 || rp_scan_stamp(at - STAMP, &t, &of_day) < 0 ||
        of_day)
        return NAN;
    return t;
}

/* A number with a comma behind it, or the line may be cut there. */
static int64_t number_after(const char *line, const char *mark)
{
    int64_t v;
    const char *at = rp_scan_after(line, mark), *end = at ? rp_scan_count(at, &v) : NULL;
    return end && *end == ',' && v > 0 && v < 100000000 ? v : -1;
}

static void put_mesh(struct rp_imported *d, int64_t devices, int64_t data, int64_t tensor, int64_t pipeline,
                     int64_t number)
{
    rp_imported_count(d, "devices", devices, number);
    rp_imported_count(d, "data_parallel", data, number);
    rp_imported_count(d, "tensor_parallel", tensor, number);
    rp_imported_count(d, "pipeline_parallel", pipeline, number);
}

/* "'dp_shard', 'tp'], [4, 2]": the degrees of the names; all of them, or the line is cut. */
static void take_list(struct rp_imported *d, const char *name, int64_t number)
{
    int64_t all = 1, data = 1, tensor = 1, pipeline = 1, one;
    const char *p = rp_scan_after(name, "], [");
    for (; p && *name == '\'';
         p++, name += name[strcspn(name, ",]")] == ',' ? strcspn(name, ",]") + 2 : strcspn(name, "]")) {
        const char *end = rp_scan_count(p, &one);
        if (!end || (*end != ',' && *end != ']') || one < 1 || one > 100000 || all > 100000)
            return;
        all *= one;
        int64_t *of = strncmp(name, "'dp", 3) == 0 ? &data : strncmp(name, "'tp'", 4) == 0 ? &tensor : &pipeline;
        *of *= of != &pipeline || strncmp(name, "'pp'", 4) == 0 ? one : 1;
        p = end;
        if (*end == ']') {
            put_mesh(d, all, data, tensor, pipeline, number);
            return;
        }
    }
}

/* "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=1", or, earlier,
 * "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]". Experts have no devices of their own. */
static void take_mesh(struct rp_imported *d, const char *line, int64_t number)
{
    if (strstr(line, "-D device mesh with [")) {
        take_list(d, strstr(line, "-D device mesh with [") + strlen("-D device mesh with ["), number);
        return;
    }
    int64_t pp = number_after(line, " pp="), copies = number_after(line, " dp_replicate="),
            shards = number_after(line, " dp_shard="), cp = number_after(line, " cp="), tp = number_after(line, " tp=");
    if (pp < 0 || copies < 0 || shards < 0 || cp < 0 || tp < 0 || pp * tp > 1000000 || cp * copies > 1000000)
        return;
    put_mesh(d, pp * copies * shards * cp * tp, copies * shards, tp, pp, number);
}

static void take_header(struct rp_imported *d, const char *line, int64_t number)
{
    int64_t v, length = number_after(line, " maximum context length ");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        rp_imported_count(d, settings[i].fact, number_after(line, settings[i].mark), number);
    const char *step = strstr(line, " tokens per train step"); /* in place of the batch */
    while (step && step > line && step[-1] >= '0' && step[-1] <= '9')
        step--;
    if (step && length > 0 && rp_scan_count(step, &v) && v % length == 0)
        rp_imported_count(d, "global_batch", v / length, number);
}

/* "Model llama3 8B size: 8,030,261,248 total parameters" */
static void take_model(struct rp_imported *d, const char *line, int64_t number)
{
    int64_t v;
    const char *name = rp_scan_after(line, "INFO - Model "), *size = name ? strstr(name, "size: ") : NULL;
    if (!size || !strstr(size, " total parameters") || size - name > 60 || !rp_scan_grouped(size + 6, &v))
        return;
    const char *end = memchr(name, '[', (size_t)(size - name)); /* of a color without its first character */
    rp_imported_textn(d, "model", name, (size_t)((end ? end : size) - name), number);
    rp_imported_count(d, "parameters", v, number);
}

static int take_step(struct rp_import_source *src, struct titan *s, const char *mark, const char *line,
                     struct rp_err *err)
{
    struct rp_step step = {.epoch = -1, .time = time_before(line, mark), .duration = NAN, .rate = NAN};
    const char *end = rp_scan_count(mark + strlen("step: "), &step.step), *next, *tps;
    if (!end || *end != ' ' || strncmp(end + strspn(end, " "), "loss: ", 6) != 0 || isnan(step.time))
        return 0;
    next = strstr(end, "step: "); /* of a line that was written into this one */
    tps = strstr(end, "tps: ") ? strstr(end, "tps: ") : strstr(end, "wps: ");
    int64_t rate, devices = rp_imported_get(&src->draft, "devices");
    if (tps && (!next || tps < next) && (end = rp_scan_grouped(tps + 5, &rate)) && *end == ' ') {
        s->lone_rates += devices < 1;
        if (devices > 0)
            step.rate = (double)rate * (double)devices;
    }
    s->latest = src->window.closed ? s->latest : step.time;
    return rp_window_step(&src->window, &step, &src->lines, err);
}

static int titan_line(struct rp_import_source *src, void *state, char *line, size_t size, struct rp_err *err)
{
    struct titan *s = state;
    int64_t number = src->lines.number;
    (void)size;
    remove_colors(line);
    const char *mark = strstr(line, "INFO - step: "), *start = strstr(line, "INFO - Training starts at step ");
    if (mark)
        return take_step(src, s, mark + strlen("INFO - "), line, err);
    if (start && src->window.steps_seen && !src->window.closed &&
        time_before(line, start + strlen("INFO - ")) > s->latest) {
        src->window.closed = 1;
        s->second = number;
    }
    if (src->window.closed)
        return 0;
    if (start || strstr(line, "INFO - Trainer is initialized with "))
        take_header(&src->draft, line, number);
    else if (strstr(line, "device mesh with "))
        take_mesh(&src->draft, line, number);
    else
        take_model(&src->draft, line, number);
    return 0;
}

static int titan_end(struct rp_import_source *src, void *state, struct rp_err *err)
{
    struct titan *s = state;
    struct rp_imported *d = &src->draft;
    if (s->lone_rates && rp_imported_get(d, "global_batch") < 0 && !src->window.rate_count)
        return rp_fail(
            err, RP_MALFORMED,
            "%s: tps is of one device, and the log has neither their number nor the batch: --set global_batch=N with "
            "--set sequence_length=N, or --set devices=N",
            src->lines.name);
    if (rp_window_finish(&src->window, d, src->opts->unit ? src->opts->unit : "sequences/s", "tokens/s", &src->lines,
                         err) < 0)
        return -1;
    if (s->second)
        rp_imported_note(d, "another training begins in line %" PRId64 " and does not count", s->second);
    rp_imported_default(d, "framework", "torchtitan", src->window.first_line);
    rp_imported_default(d, "label", src->name, RP_DRAFT_NAMED);
    return rp_import_add(src, d, err);
}

const struct rp_importer rp_importer_torchtitan = {
    .name = "torchtitan",
    .state = sizeof(struct titan),
    .line = titan_line,
    .end = titan_end,
};
