/* Any bytes from a worker's end of the socket: frames, or an end with one line. What they say goes where a run, a
 * capture and doctor take it.
 *
 *   "RPW1..."            the bytes of the socket
 *   "5 {JSON}" LF ...    lines: a type, its body; framed as they should be */
#include "base/json.h"
#include "base/text.h"
#include "bundle/schema.h"
#include "capture/nvidia/gpu.h"
#include "process/process.h"
#include "run/records.h"
#include "run/telemetry.h"
#include "tests/fuzz/fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

/* What a frame of the type says, in a little-endian header. */
static void frame(struct rp_buf *out, unsigned type, const char *body, size_t n)
{
    unsigned char head[16] = {'R', 'P', 'W', '1', RP_FRAME_VERSION, 0,
                              (unsigned char)type,
                              0,
                              (unsigned char)n,
                              (unsigned char)(n >> 8),
                              (unsigned char)(n >> 16)};
    rp_buf_add(out, head, sizeof head);
    rp_buf_add(out, body, n);
}

static void of_lines(struct rp_buf *out, const char *text, size_t size)
{
    for (size_t i = 0, n, digits; i < size; i += n + 1) {
        const char *end = memchr(text + i, '\n', size - i);
        unsigned type = 0;
        n = end ? (size_t)(end - text) - i : size - i;
        for (digits = 0; digits < n && digits < 2 && text[i + digits] >= '0' && text[i + digits] <= '9'; digits++)
            type = type * 10 + (unsigned)(text[i + digits] - '0');
        frame(out, type, text + i + digits, n - digits);
    }
}

/* ---- who takes them ---- */

struct taken {
    struct rp_sampling telemetry;
    struct rp_buf steps;
    json_t *answers;
};

static void take(struct taken *t, enum rp_frame type, const json_t *body)
{
    struct rp_err err = {0};
    const char *probe = json_string_value(json_object_get(body, "probe"));
    must(json_is_object(body));
    if (type == RP_FRAME_STEP)
        rp_json_write_line(&t->steps, body);
    if (type == RP_FRAME_TELEMETRY)
        rp_sampling_add(&t->telemetry, body);
    if (type == RP_FRAME_VALUES && probe)
        json_object_set(t->answers, probe, json_object_get(body, "values"));
    if (type == RP_FRAME_FAILED) {
        must(rp_frame_failure(body, &err) < 0);
        must_be_refusal(&err);
    }
}

/* Values of a GPU are a part of a capture, whatever the worker says. */
static void as_values(const struct taken *t)
{
    static const struct rp_schema *schema; /* read once */
    struct rp_err err = {0};
    struct rp_capture_opts o = {.root = "/"};
    struct rp_probe p = {
        .opts = &o, .root = -1, .name = "gpu", .salt = "00112233445566778899aabbccddeeff", .out = json_object()};
    RP_BUF text = {0};
    if (!schema)
        must((schema = rp_schema_load("env", &err)) != NULL);
    rp_gpu_put(&p, t->answers);
    RP_JSON *doc = json_pack("{s:s, s:s, s:s, s:b, s:{s:o}}", "schema", "repro-env/1", "captured_at",
                             "2026-11-21T00:00:00Z", "salt", p.salt, "identified", 0, "probes", "gpu", p.out);
    must(doc && rp_schema_check(schema, doc, "capture", &err) == 0);
    rp_json_write_line(&text, doc);
    for (size_t i = 0, n; i + 1 < text.size; i += n) {
        unsigned c = 0;
        n = rp_utf8(text.data + i, text.size - i, &c);
        must(n && !rp_is_control(c) && !rp_is_bidi_control(c));
    }
    for (const char *at = text.data; (at = strchr(at, '\\')); at += 2)
        must(at[1] != 'u'); /* JSON spells control characters so */
}

/* What was kept of the samples is what verify takes, and records are that or refused with one line. */
static void as_members(struct taken *t)
{
    struct rp_err err = {0};
    struct rp_records records;
    struct rp_telemetry samples;
    RP_BUF lines = {0};
    rp_sampling_write(&lines, &t->telemetry);
    must(!strpbrk(t->telemetry.reason, "\n\033"));
    if (lines.size) {
        must(rp_telemetry_parse(&samples, "samples", rp_telemetry_most(1), lines.data, lines.size, &err) == 0);
        rp_telemetry_fini(&samples);
    }
    if (rp_records_parse(&records, rp_buf_text(&t->steps), t->steps.size, &err) < 0)
        must_be_refusal(&err);
    else
        rp_records_fini(&records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_process w = {.pid = -1, .errors = -1, .name = "the worker"};
    struct taken t = {.answers = json_object()};
    struct rp_err err = {0};
    int end[2], got;
    RP_BUF bytes = {0};
    if (size && *data >= '0' && *data <= '9')
        of_lines(&bytes, (const char *)data, size);
    else
        rp_buf_add(&bytes, data, size);
    if (bytes.size > 65536) /* more than a socket takes while nobody reads */
        bytes.size = 65536;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, end) == 0);
    must(rp_write_all(end[1], rp_buf_text(&bytes), bytes.size) == 0 && close(end[1]) == 0);
    w.fd = end[0];
    do {
        enum rp_frame type;
        RP_JSON *body = NULL;
        got = rp_process_next(&w, 10000, &type, &body, &err);
        must(got != 0); /* all is there */
        if (got > 0)
            take(&t, type, body);
    } while (got > 0);
    must_be_refusal(&err);
    must(w.fd < 0);
    rp_process_kill(&w);
    as_values(&t);
    as_members(&t);
    rp_sampling_fini(&t.telemetry);
    rp_buf_fini(&t.steps);
    json_decref(t.answers);
    return 0;
}
