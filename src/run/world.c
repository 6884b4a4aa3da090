#include "run/world.h"

#include "base/json.h"

json_t *rp_world_rank_of_records(const struct rp_rank_share *s)
{
    json_t *j = json_pack("{s:I, s:s, s:f, s:f}", "samples_per_step", (json_int_t)s->samples, "records_sha256", s->sha256, "timed_s",
                          (double)s->span_ns / 1e9, "exchange_s", (double)s->exchange_ns / 1e9);
    if (s->wait_ns >= 0)
        json_object_set_new(j, "wait_s", json_real((double)s->wait_ns / 1e9));
    if (s->overlap_ns >= 0)
        json_object_set_new(j, "overlap_s", json_real((double)s->overlap_ns / 1e9));
    return j;
}

static void copy(json_t *to, const char *key, const json_t *from, const char *path)
{
    const json_t *v = rp_json_at(from, path);
    if (v)
        json_object_set_new(to, key, json_deep_copy(v));
}

static json_t *rank_json(const struct rp_world_doc *d, int i)
{
    json_t *j = rp_world_rank_of_records(&d->all->share[i]);
    json_object_set_new(j, "rank", json_integer(i));
    json_object_set_new(j, "node", json_integer(d->host ? d->host[i] : 0));
    copy(j, "device", d->hello[i], "device");
    copy(j, "cpus", d->hello[i], "cpus");
    copy(j, "device_bytes", d->done[i], "device_bytes");
    copy(j, "peak_rss_bytes", d->done[i], "peak_rss_bytes");
    copy(j, "exchange", d->done[i], "exchange");
    if (d->telemetry && d->telemetry[i])
        json_object_set_new(j, "telemetry", json_deep_copy(d->telemetry[i]));
    return j;
}

json_t *rp_world_json(const struct rp_world_doc *d)
{
    const int ranks = d->all ? d->all->ranks : 1;
    int nodes = 1;
    for (int i = 0; i < ranks && d->host; i++)
        nodes = d->host[i] >= nodes ? d->host[i] + 1 : nodes;
    json_t *j = json_pack("{s:i, s:i}", "ranks", ranks, "nodes", nodes);
    if (ranks == 1)
        return j;
    json_object_set_new(j, "data", json_integer(d->degrees.data));
    json_object_set_new(j, "tensor", json_integer(d->degrees.tensor));
    json_object_set_new(j, "pipeline", json_integer(d->degrees.pipeline));
    if (d->launch)
        json_object_set_new(j, "launch", json_deep_copy(d->launch));
    if (d->processes)
        json_object_set_new(j, "processes", json_deep_copy(d->processes));
    json_object_set_new(j, "slowest", json_integer(d->all->slowest));
    json_t *list = json_array();
    for (int i = 0; i < ranks; i++)
        json_array_append_new(list, rank_json(d, i));
    json_object_set_new(j, "rank", list);
    return j;
}
