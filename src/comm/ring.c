/* Shared memory and the rings in it. */
#include "comm/ring.h"

#include "base/buf.h"
#include "base/little_endian.h"
#include "comm/secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define LINE 64 /* bytes of a cache line: the two sides write to different ones */

struct rp_ring_half {
    _Alignas(LINE) _Atomic uint64_t written; /* by the producer */
    _Alignas(LINE) _Atomic uint64_t read;    /* by the consumer */
    _Alignas(LINE) _Atomic uint32_t reader_waits;
    _Alignas(LINE) _Atomic uint32_t writer_waits;
};
struct shared {
    unsigned char token[RP_RING_TOKEN];
    struct rp_ring_half half[2]; /* 0: from the creator */
};
_Static_assert(sizeof(struct shared) <= PAGE, "positions fit one page");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics between processes need no lock");

/* ---- the offer, little-endian: kind, process, descriptor, zeros (32 bits each), bytes of a ring (64), token, zeros
 * (64) ---- */

uint64_t rp_ring_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static void file_name(char out[64], const unsigned char token[RP_RING_TOKEN])
{
    char hex[2 * RP_RING_TOKEN + 1];
    rp_hex(hex, token, RP_RING_TOKEN);
    snprintf(out, 64, "/dev/shm/repro-%s", hex);
}

/* ---- opening and closing ---- */

static void map_rings(struct rp_rings *r, size_t ring_bytes, int creator)
{
    struct shared *s = r->map;
    unsigned char *data = (unsigned char *)r->map + PAGE;
    r->out = (struct rp_ring){.at = &s->half[!creator], .data = data + (creator ? 0 : ring_bytes), .size = ring_bytes};
    r->in = (struct rp_ring){.at = &s->half[creator], .data = data + (creator ? ring_bytes : 0), .size = ring_bytes};
}

static int create_file(struct rp_rings *r)
{
    char name[64];
    file_name(name, r->token);
    if (r->kind == RP_RING_MEMFD)
        return memfd_create(strrchr(name, '/') + 1, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* A full /dev/shm would end the process at the first touch of a page: a file there is allocated at once. */
static int size_file(const struct rp_rings *r)
{
    if (r->kind == RP_RING_FILE) {
        errno = posix_fallocate(r->fd, 0, (off_t)r->map_size);
        return errno ? -1 : 0;
    }
    return ftruncate(r->fd, (off_t)r->map_size) < 0
               ? -1
               : fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

int rp_rings_create(struct rp_rings *r, enum rp_ring_kind kind, size_t ring_bytes, unsigned char offer[RP_RING_OFFER],
                    struct rp_err *err)
{
    RP_BUG_IF(ring_bytes < RP_RING_LEAST || ring_bytes > RP_RING_MOST || (ring_bytes & (ring_bytes - 1)));
    *r = (struct rp_rings){.kind = kind, .map_size = PAGE + 2 * ring_bytes, .fd = -1};
    if (rp_secret_random(r->token, sizeof r->token, err) < 0)
        return -1;
    r->fd = create_file(r);
    void *map = MAP_FAILED;
    if (r->fd < 0 || size_file(r) < 0 ||
        (map = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0)) == MAP_FAILED) {
        (void)rp_fail(err, RP_UNAVAILABLE, "cannot share memory with another process: %s", strerror(errno));
        rp_rings_settle(r);
        return -1;
    }
    r->map = map;
    memcpy(((struct shared *)map)->token, r->token, sizeof r->token);
    map_rings(r, ring_bytes, 1);
    memset(offer, 0, RP_RING_OFFER);
    rp_put_le(offer, kind, 4);
    rp_put_le(offer + 4, (uint64_t)getpid(), 4);
    rp_put_le(offer + 8, (uint64_t)r->fd, 4);
    rp_put_le(offer + 16, ring_bytes, 8);
    memcpy(offer + 24, r->token, sizeof r->token);
    return 0;
}

/* The name under /proc is compared first: opening whatever else has this number there could have effects. */
static int open_offered(const unsigned char *offer, enum rp_ring_kind kind)
{
    char name[64], path[64], expected[80], is[80] = "";
    file_name(name, offer + 24);
    if (kind == RP_RING_FILE)
        return open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    RP_FORMAT(path, "/proc/%u/fd/%u", (unsigned)rp_get_le(offer + 4, 4), (unsigned)rp_get_le(offer + 8, 4));
    RP_FORMAT(expected, "/memfd:%s (deleted)", strrchr(name, '/') + 1);
    if (readlink(path, is, sizeof is - 1) < 0)
        return -1;
    if (strcmp(is, expected) != 0) {
        errno = ENOENT;
        return -1;
    }
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

/* Is it of the offered size, and will it stay so? */
static int is_offered(int fd, enum rp_ring_kind kind, size_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 0 || (uint64_t)st.st_size != bytes)
        return 0;
    if (kind == RP_RING_MEMFD)
        return (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
    return (st.st_mode & 077) == 0 && (st.st_uid == geteuid() || geteuid() == 0);
}

int rp_rings_join(struct rp_rings *r, const unsigned char offer[RP_RING_OFFER], struct rp_err *err)
{
    const uint64_t kind = rp_get_le(offer, 4), ring_bytes = rp_get_le(offer + 16, 8);
    *r = (struct rp_rings){.fd = -1};
    if (kind <= RP_RING_NONE || kind >= RP_RING_KINDS || ring_bytes < RP_RING_LEAST || ring_bytes > RP_RING_MOST ||
        (ring_bytes & (ring_bytes - 1)))
        return rp_fail(err, RP_MALFORMED, "an offer of shared memory of kind %u with rings of %llu bytes",
                       (unsigned)kind, (unsigned long long)ring_bytes);
    r->kind = (enum rp_ring_kind)kind;
    r->map_size = PAGE + 2 * ring_bytes;
    RP_FD fd = open_offered(offer, r->kind);
    if (fd < 0)
        return rp_fail(err, RP_UNAVAILABLE, "cannot open the shared memory of another process: %s", strerror(errno));
    if (!is_offered(fd, r->kind, r->map_size))
        return rp_fail(err, RP_UNAVAILABLE, "the shared memory of another process is not the one that it offered");
    void *map = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return rp_fail(err, RP_UNAVAILABLE, "cannot map the shared memory of another process: %s", strerror(errno));
    r->map = map;
    if (!rp_secret_equal(((const struct shared *)map)->token, offer + 24, RP_RING_TOKEN)) {
        rp_rings_close(r);
        return rp_fail(err, RP_UNAVAILABLE, "the shared memory of another process is not the one that it offered");
    }
    memcpy(r->token, offer + 24, RP_RING_TOKEN);
    map_rings(r, ring_bytes, 0);
    return 0;
}

void rp_rings_settle(struct rp_rings *r)
{
    char name[64];
    if (r->fd < 0)
        return;
    close(r->fd);
    r->fd = -1;
    file_name(name, r->token);
    if (r->kind == RP_RING_FILE)
        unlink(name);
}

void rp_rings_close(struct rp_rings *r)
{
    rp_rings_settle(r);
    if (r->map)
        munmap(r->map, r->map_size);
    r->map = NULL;
}

/* ---- bytes ---- */

static size_t least(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* Copies between the ring and memory, in two parts where the ring ends. */
static void copy_bytes(struct rp_ring *r, unsigned char *data, size_t n, int into_ring)
{
    const size_t at = (size_t)(r->position & (r->size - 1)), first = least(n, r->size - at);
    if (into_ring) {
        memcpy(r->data + at, data, first);
        memcpy(r->data, data + first, n - first);
    } else {
        memcpy(data, r->data + at, first);
        memcpy(data + first, r->data, n - first);
    }
}

size_t rp_ring_write(struct rp_ring *r, const void *data, size_t size)
{
    const uint64_t used = r->position - atomic_load(&r->at->read);
    const size_t n = used > r->size ? 0 : least(least(size, r->size - used), r->size / 4);
    if (n) {
        copy_bytes(r, (unsigned char *)(uintptr_t)data, n, 1);
        r->position += n;
        atomic_store(&r->at->written, r->position);
    }
    return n;
}

size_t rp_ring_read(struct rp_ring *r, void *data, size_t size)
{
    const uint64_t there = atomic_load(&r->at->written) - r->position;
    const size_t n = there > r->size ? 0 : least(least(size, there), r->size / 4);
    if (n) {
        copy_bytes(r, data, n, 0);
        r->position += n;
        atomic_store(&r->at->read, r->position);
    }
    return n;
}

int rp_ring_broken(const struct rp_ring *r)
{
    const uint64_t written = atomic_load(&r->at->written);
    const uint64_t read = atomic_load(&r->at->read);
    return written - r->position > r->size || r->position - read > r->size; /* one of both is this side's */
}

/* All accesses are sequentially consistent: one side writes its position and then looks at the flag, the other one sets
 * the flag and then looks at the position, so that one of both sees what the other did. */
void rp_ring_wait_bytes(struct rp_ring *in)
{
    atomic_store(&in->at->reader_waits, 1);
}

void rp_ring_wait_room(struct rp_ring *out)
{
    atomic_store(&out->at->writer_waits, 1);
}

int rp_ring_wanted(struct rp_ring *r, int after_write)
{
    _Atomic uint32_t *flag = after_write ? &r->at->reader_waits : &r->at->writer_waits;
    return atomic_load(flag) && atomic_exchange(flag, 0);
}
