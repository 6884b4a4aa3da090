/* What a record says besides its files. */
#include "capture/record.h"

#include "base/json.h"

json_t *rp_record_load(int root, const char *dir, struct rp_err *err)
{
    struct rp_capture_opts opts = {.root = dir};
    struct rp_probe p = {.opts = &opts, .root = root};
    RP_TEXT t = {0};
    *err = (struct rp_err){0};
    if (root < 0 || !rp_probe_exists(&p, "/.repro"))
        return NULL;
    rp_text_read(&t, &p, "/.repro/live.json");
    if (t.state == RP_STATE_ABSENT)
        return rp_fail_null(err, RP_MALFORMED,
                            "'%s' is a record that was not finished: it has .repro but no .repro/live.json", dir);
    if (t.state != RP_STATE_OK)
        return rp_fail_null(err, RP_IO, "'%s/.repro/live.json' cannot be read", dir);
    RP_FREE char *name = rp_asprintf("%s/.repro/live.json", dir);
    json_t *live = rp_json_parse(t.bytes.data, t.bytes.size, name, err);
    RP_READ(capture_document, head, live);
    if (live && !rp_same_text(head.schema, RP_RECORD_SCHEMA)) {
        rp_fail(err, RP_MALFORMED, "%s: expected the schema '%s'", name, RP_RECORD_SCHEMA);
        json_decref(live);
        return NULL;
    }
    return live;
}
