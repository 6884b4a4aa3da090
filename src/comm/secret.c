/* HMAC-SHA256 on base/hash.h. */
#include "comm/secret.h"

#include "base/buf.h"
#include "base/hash.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#define BLOCK 64 /* of SHA-256 */

static void hash_padded(struct rp_sha256 *h, const unsigned char key[BLOCK], unsigned char pad)
{
    unsigned char block[BLOCK];
    for (int i = 0; i < BLOCK; i++)
        block[i] = key[i] ^ pad;
    rp_sha256_init(h);
    rp_sha256_update(h, block, BLOCK);
    explicit_bzero(block, BLOCK);
}

/* The key as a block: hashed if it is longer. */
static void pad_key(unsigned char out[BLOCK], const void *key, size_t size)
{
    memset(out, 0, BLOCK);
    if (size > BLOCK)
        rp_sha256_bytes(out, key, size);
    else if (size)
        memcpy(out, key, size);
}

void rp_secret_mac(unsigned char out[RP_SECRET_SIZE], const void *key, size_t key_size, const void *data, size_t size)
{
    struct rp_sha256 h;
    unsigned char block[BLOCK], inner[RP_SHA256_SIZE];
    pad_key(block, key, key_size);
    hash_padded(&h, block, 0x36);
    rp_sha256_update(&h, data, size);
    rp_sha256_final(&h, inner);
    hash_padded(&h, block, 0x5c);
    rp_sha256_update(&h, inner, sizeof inner);
    rp_sha256_final(&h, out);
    explicit_bzero(block, sizeof block);
    explicit_bzero(&h, sizeof h);
}

void rp_secret_derive(unsigned char out[RP_SECRET_SIZE], const unsigned char key[RP_SECRET_SIZE], const char *label,
                      const void *context, size_t size)
{
    RP_BUF text = {0};
    rp_buf_add(&text, label, strlen(label) + 1);
    rp_buf_add(&text, context, size);
    rp_secret_mac(out, key, RP_SECRET_SIZE, text.data, text.size);
}

int rp_secret_equal(const void *a, const void *b, size_t size)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char differ = 0;
    for (size_t i = 0; i < size; i++)
        differ |= x[i] ^ y[i];
    return differ == 0;
}

int rp_secret_is_name(const char *s, size_t max)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strlen(s);
    return n > 0 && n <= max && strspn(s, allowed) == n;
}

int rp_secret_random(void *out, size_t size, struct rp_err *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = RP_RETRY(getrandom((char *)out + done, size - done, 0));
        if (n < 0)
            return rp_fail(err, RP_UNAVAILABLE, "no random bytes from the kernel: %s", strerror(errno));
        done += (size_t)n;
    }
    return 0;
}

void rp_secret_stay_out_of_cores(void)
{
    /* kinds of mappings, core(5); inherited, through exec too */
    RP_FD fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0\n", 2) != 2)
        prctl(PR_SET_DUMPABLE, 0);
}
