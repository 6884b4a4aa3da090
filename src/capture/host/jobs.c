/* The job of this process, from the variables of its launcher: numbers of nodes, tasks, CPUs and GPUs, and the ranks of
 * this process. */
#include "capture/privacy/job_variables.h"

#include <string.h>

static void put_fact(json_t *obj, const struct rp_job_fact *f, const char *value, const char *place)
{
    int64_t n;
    RP_FREE char *source = rp_asprintf("%s: %s", place, f->variable);
    if (!value || !*value)
        rp_put_absent(obj, f->name, source);
    else if (f->kind != RP_JOB_NUMBER)
        rp_put_variable(obj, f->name, value, source);
    else if (rp_parse_count(value, &n) == 0)
        rp_put_int(obj, f->name, n, source, strncmp(f->name, "memory_per", 10) == 0 ? "MiB" : NULL);
    else
        rp_put(obj, f->name, RP_STATE_ERROR, NULL, source, NULL, "not a number");
}

void rp_probe_jobs(struct rp_probe *p)
{
    RP_TEXT t;
    rp_environ_read(&t, p);
    if (t.state != RP_STATE_OK)
        rp_put_state(p->out, "launchers", &t);
    json_t *found = json_array();
    for (const struct rp_job_launcher *l = rp_job_launchers; t.state == RP_STATE_OK && l->name; l++) {
        if (!rp_environ_get(&t, l->mark))
            continue;
        json_t *group = json_object();
        for (const struct rp_job_fact *f = l->facts; f->name; f++)
            put_fact(group, f, rp_environ_get(&t, f->variable), t.path);
        json_object_set_new(p->out, l->name, group);
        json_array_append_new(found, json_string(l->name));
    }
    if (t.state == RP_STATE_OK)
        rp_put(p->out, "launchers", RP_STATE_OK, found, t.path, NULL, NULL);
    else
        json_decref(found);
}
