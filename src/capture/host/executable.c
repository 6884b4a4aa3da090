/* This very program: its bytes by digest, and the record its build left in it. */
#include "capture/probe.h"

#include "base/build.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#include <string.h>

static const char record[] = "build record";

static const char self[] = "/proc/self/exe";

static json_t *ask_digest(const struct rp_probe *p, const char *path)
{
    char hex[RP_SHA256_HEX];
    struct rp_err ignored;
    enum rp_state state;
    const char *detail = NULL;
    uint64_t size;
    RP_FD fd = rp_probe_open(p, path, &state, &detail);
    if (state == RP_STATE_ABSENT)
        return NULL;
    if (state != RP_STATE_OK)
        return json_pack("{s:s, s:s*}", "state", rp_state_name(state), "detail",
                         state == RP_STATE_ERROR ? detail : NULL);
    if (rp_sha256_fd(hex, fd, path, &size, &ignored) < 0)
        return json_pack("{s:s, s:s}", "state", "error", "detail", "cannot be read");
    return json_pack("{s:s, s:I}", "sha256", hex, "size", (json_int_t)size);
}

static void put_digest(struct rp_probe *p)
{
    RP_JSON *json = rp_probe_query(p, "file", self, ask_digest);
    RP_READ(digest_answer, answer, json);
    if (answer.sha256 && rp_is_sha256(answer.sha256) && answer.size > 0) {
        rp_put_str(p->out, "sha256", answer.sha256, self);
        rp_put_int(p->out, "size", answer.size, self, "B");
        return;
    }
    enum rp_state state = json ? rp_state_named(answer.state) : RP_STATE_ABSENT;
    state = state == RP_STATE_OK ? RP_STATE_ERROR : state;
    const char *detail =
        rp_is_line(answer.detail) && json_string_length(answer.detail) ? json_string_value(answer.detail) : NULL;
    detail = state != RP_STATE_ERROR ? NULL : detail ? detail : "not a digest";
    rp_put(p->out, "sha256", state, NULL, self, NULL, detail);
    rp_put(p->out, "size", state, NULL, self, "B", detail);
}

static void put_lines(struct rp_probe *p, const char *name, const char *lines)
{
    json_t *list = json_array();
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        if (n)
            json_array_append_new(list, json_stringn(lines, n));
        lines += n + (lines[n] == '\n');
    }
    rp_put(p->out, name, RP_STATE_OK, list, record, NULL, NULL);
}

void rp_probe_program(struct rp_probe *p)
{
    const struct rp_build *b = rp_build_record();
    rp_put_str(p->out, "version", b->version, record);
    rp_put_str(p->out, "commit", b->commit, record);
    rp_put_str(p->out, "source_state", b->dirty, record);
    rp_put_str(p->out, "compiler", b->compiler, record);
    rp_put_str(p->out, "flags", b->flags, record);
    put_lines(p, "dependencies", b->deps);       /* "NAME VERSION SHA256 FILE" and "fell-forward: ..." */
    put_lines(p, "device_code", b->device_code); /* "NVRTC 12.9.86", "sm_90 SHA256 BYTES" */
    put_digest(p);
}
