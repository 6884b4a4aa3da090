/* Frames on the wire; the layout is in process.h. */
#include "base/json.h"
#include "process/process.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define RP_OBJECT_LIST "process/frames.def"
#include "base/object_tables.inc.h"

#define HEADER 16
static const char magic[4] = {'R', 'P', 'W', '1'};

static void put_le(unsigned char *p, uint32_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static uint32_t get_le(const unsigned char *p, int bytes)
{
    uint32_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint32_t)p[i] << (8 * i);
    return v;
}

/* MSG_NOSIGNAL: a peer that is gone is an error here, not a SIGPIPE. */
static int send_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t n = RP_RETRY(send(fd, data, size, MSG_NOSIGNAL));
        if (n < 0)
            return -1;
        data += n;
        size -= (size_t)n;
    }
    return 0;
}

int rp_frame_encode(struct rp_buf *out, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    RP_BUF text = {0};
    rp_json_write_line(&text, body);
    if (text.size > RP_FRAME_MAX)
        return rp_fail(err, RP_BUG, "a worker record of %zu bytes is over the limit of %u", text.size, RP_FRAME_MAX);
    unsigned char head[HEADER] = {0};
    memcpy(head, magic, 4);
    put_le(head + 4, RP_FRAME_VERSION, 2);
    put_le(head + 6, (uint32_t)type, 2);
    put_le(head + 8, (uint32_t)text.size, 4);
    rp_buf_add(out, head, HEADER);
    rp_buf_add(out, text.data, text.size);
    return 0;
}

int rp_frame_write(int fd, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    RP_BUF frame = {0};
    if (rp_frame_encode(&frame, type, body, err) < 0)
        return -1;
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&turn);
    int e = send_all(fd, frame.data, frame.size) < 0 ? errno : 0;
    pthread_mutex_unlock(&turn);
    if (e) {
        rp_fail(err, RP_IO, "cannot send a record to the other process: %s", strerror(e));
        err->sys = e;
        return -1;
    }
    return 0;
}

int rp_frame_decode_at(const char *in, size_t size, size_t *used, enum rp_frame *type, json_t **body,
                       struct rp_err *err)
{
    *body = NULL;
    *used = 0;
    if (size < HEADER)
        return 0;
    const unsigned char *h = (const unsigned char *)in;
    if (memcmp(h, magic, 4) != 0)
        return rp_fail(err, RP_MALFORMED, "the worker sent bytes that are not a record (expected 'RPW1')");
    uint32_t version = get_le(h + 4, 2), kind = get_le(h + 6, 2), length = get_le(h + 8, 4);
    if (version != RP_FRAME_VERSION)
        return rp_fail(err, RP_MALFORMED,
                       "the worker uses record version %u, this program %u: they are not the same build", version,
                       RP_FRAME_VERSION);
    if (length > RP_FRAME_MAX || get_le(h + 12, 4) != 0)
        return rp_fail(err, RP_MALFORMED, "the worker announced a record of %u bytes, the limit is %u", length,
                       RP_FRAME_MAX);
    if (size < HEADER + (size_t)length)
        return 0;
    json_t *j = rp_json_parse(in + HEADER, length, "worker record", err);
    if (!j)
        return -1;
    if (!json_is_object(j)) {
        json_decref(j);
        return rp_fail(err, RP_MALFORMED, "the worker sent a record that is not a JSON object");
    }
    *used = HEADER + (size_t)length;
    *type = kind < RP_FRAME_COUNT ? (enum rp_frame)kind : RP_FRAME_COUNT;
    *body = j;
    return 1;
}

int rp_frame_decode(struct rp_buf *in, enum rp_frame *type, json_t **body, struct rp_err *err)
{
    size_t used;
    const int got = rp_frame_decode_at(in->data, in->size, &used, type, body, err);
    in->size -= used;
    if (used)
        memmove(in->data, in->data + used, in->size);
    return got;
}

int rp_frame_failure(const json_t *body, struct rp_err *err)
{
    RP_READ(failed_frame, failed, body);
    return rp_frame_failure_of(&failed, err);
}

int rp_frame_failure_of(const struct rp_failed_frame *f, struct rp_err *err)
{
    return rp_fail(err, f->code > RP_OK && f->code <= RP_INTERRUPTED ? (enum rp_code)f->code : RP_BUG, "%s",
                   f->message ? f->message : "the worker failed without a message");
}
