/* One connection of a job's control channel: frames over an encrypted channel. Internal to launch/join*.c.
 *
 * What:    queues frames that are to be sent, and takes frames that arrived, without waiting.
 * Flow:    rp_channel -> rp_join_link_pump() -> rp_join_link_take(); rp_join_link_send() -> rp_join_link_pump().
 * Owner:   the link owns its channel and buffers.
 * Extend:  what frames mean is in join.c (members), join_lead.c and join_follow.c (until the world is complete,
 *          which join_open.c waits for).
 */
#pragma once

#include "base/object.h"
#include "comm/channel.h"
#include "launch/address.h"
#include "launch/join.h"

#define RP_OBJECT_LIST "launch/join.def"
#include "base/object_structs.inc.h"

struct rp_join_link {
    struct rp_channel *channel;   /* NULL: closed */
    struct rp_buf in, out;
    /* bytes of in: [in_at, size) are not taken yet; of out: [out_at, size) are not sent yet */
    size_t in_at, out_at;
    uint64_t taken;               /* frames */
    uint64_t heard_ns, sent_ns;   /* when bytes last came, and when a frame was last sent */
    int more, finished, farewell; /* in may hold more than was read; the other side ended; it sent BYE */
    char address[RP_ADDRESS_TEXT];
    uint64_t asked_wall, asked_monotonic; /* when its clock was asked for; 0: it was not */
};

void rp_join_link_open(struct rp_join_link *l, struct rp_channel *c);
void rp_join_link_close(struct rp_join_link *l);
int rp_join_link_send(struct rp_join_link *l, enum rp_frame type, const json_t *body, struct rp_err *err) rp_must_check;
/* Sends and reads what is possible at once. RP_UNAVAILABLE: the connection is broken, or ended without a farewell. */
int rp_join_link_pump(struct rp_join_link *l, struct rp_err *err) rp_must_check;
/* 1: a frame; 0: none yet; -1: RP_MALFORMED. */
int rp_join_link_take(struct rp_join_link *l, enum rp_frame *type, json_t **body, struct rp_err *err) rp_must_check;
/* if nothing was sent for a second */
int rp_join_link_beat(struct rp_join_link *l, uint64_t now, struct rp_err *err) rp_must_check;
int rp_join_link_is_flushed(const struct rp_join_link *l);
short rp_join_link_events(const struct rp_join_link *l);

/* join_lead.c, join_follow.c: fill j->link and j->member. */
int rp_join_lead(struct rp_join *j, const struct rp_join_opts *o, json_t *own, struct rp_err *err) rp_must_check;
int rp_join_follow(struct rp_join *j, const struct rp_join_opts *o, json_t *own, struct rp_err *err) rp_must_check;
/* join_world.c: what a process says of itself; members from JOIN messages, and as a WORLD message and back. */
json_t *rp_join_describe(const struct rp_join_opts *o, const char *machine);
/* The form of a JOIN message; the caller finishes *m in any case. */
int rp_join_check(struct rp_join_request *m, const json_t *join, int size, struct rp_err *err) rp_must_check;
/* joins: of all processes, by index. Numbers hosts, places and ranks. */
void rp_join_make_world(struct rp_join *j, const struct rp_join_request *joins);
json_t *rp_join_world_json(const struct rp_join *j);
int rp_join_parse_world(struct rp_join *j, const json_t *world, struct rp_err *err) rp_must_check;
/* CLOCK */
int rp_join_answer_clock(const struct rp_join *j, struct rp_join_link *l, const json_t *body,
                         struct rp_err *err) rp_must_check;
json_t *rp_join_reason(const struct rp_err *reason);             /* body of ABORT */
int rp_join_read_reason(const json_t *body, struct rp_err *err); /* and back: -1, as rp_fail() */
