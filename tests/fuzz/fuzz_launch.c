/* What a launcher puts into variables, and what another process of the job sends: lists of hosts, addresses, JOIN and
 * WORLD. What is accepted has bounds, every host of a list can be taken, and what is refused is one line.
 *
 *   "J{...}"   a JOIN message, the leader being one of two      "W{...}"   a WORLD message of two      else a list and
 *                                                                                                      an address */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/hostlist.h"
#include "launch/join_link.h"
#include "tests/fuzz/fuzz.h"

static void as_list(const char *text)
{
    struct rp_err err = {0};
    char host[RP_HOST_MAX + 1];
    int64_t n = rp_hostlist_count(text, "LIST", &err);
    if (n < 0)
        must_be_refusal(&err);
    must(n <= RP_HOSTLIST_MAX);
    for (int64_t i = 0; i < n; i += 1 + n / 7) {
        if (rp_hostlist_at(host, text, i, "LIST", &err) < 0)
            must_be_refusal(&err); /* the name is too long */
        else
            must(*host && rp_plain_size(host, strlen(host), 0) == strlen(host) && !strpbrk(host, "[], "));
    }
}

static void as_address(const char *text)
{
    struct rp_err err = {0};
    struct rp_address a;
    if (rp_address_parse(&a, text, &err) < 0)
        must_be_refusal(&err);
    else
        must(*a.host && a.port >= 0 && a.port <= 65535 && !strpbrk(a.host, " \n\033"));
}

static void as_join(const json_t *join)
{
    struct rp_err err = {0};
    struct rp_job_member members[2] = {{0}};
    struct rp_join j = {.own = 0, .members = 2, .member = members, .lead = 1};
    struct rp_join_request said;
    if (rp_join_check(&said, join, 2, &err) < 0) {
        rp_object_fini(&said, &rp_type_join_request);
        must_be_refusal(&err);
        return;
    }
    rp_join_make_world(&j, (const struct rp_join_request[]){said, said});
    rp_object_fini(&said, &rp_type_join_request);
    must(j.world >= 2 && members[1].first_rank == members[0].ranks && members[1].local_rank == members[0].ranks);
    RP_JSON *world = rp_join_world_json(&j);
    for (int i = 0; i < 2; i++) {
        json_decref(members[i].addresses);
        json_decref(members[i].about);
    }
    memset(members, 0, sizeof members);
    must(world && rp_join_parse_world(&j, world, &err) == 0 && members[1].local_rank == members[0].ranks);
    for (int i = 0; i < 2; i++) {
        json_decref(members[i].addresses);
        json_decref(members[i].about);
    }
}

static void as_world(const json_t *world)
{
    struct rp_err err = {0};
    struct rp_job_member members[2] = {{0}};
    struct rp_join j = {.own = 1, .members = 2, .member = members};
    char who[200];
    if (rp_join_parse_world(&j, world, &err) < 0)
        must_be_refusal(&err);
    else
        must(j.world >= 2 && !strpbrk(rp_join_who(&j, 1, who), "\n\033"));
    for (int i = 0; i < 2; i++) {
        json_decref(members[i].addresses);
        json_decref(members[i].about);
    }
    must(rp_join_read_reason(world, &err) < 0);
    must_be_refusal(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_err err = {0};
    RP_BUF text = {0};
    rp_buf_add(&text, data, size);
    if (size && (*data == 'J' || *data == 'W')) {
        RP_JSON *body = rp_json_parse((const char *)data + 1, size - 1, "message", &err);
        if (!body)
            must_be_refusal(&err);
        else if (json_is_object(body))
            (*data == 'J' ? as_join : as_world)(body);
        return 0;
    }
    as_list(rp_buf_text(&text));
    as_address(rp_buf_text(&text));
    return 0;
}
