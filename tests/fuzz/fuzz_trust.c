/* Any bytes as the only file of a trust store: in it and as adding it would write it, or skipped with one line. After a
 * first byte "d", lines of an entry whose digest is right: the day, then the key. */
#include "base/clock.h"
#include "base/hash.h"
#include "sign/trust.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD "repro-trust/1\nuntil: "

static void with_digest(struct rp_buf *out, const char *text, size_t size)
{
    RP_BUF all = {0};
    char hex[RP_SHA256_HEX];
    const char *end = memchr(text, '\n', size);
    size_t day = end ? (size_t)(end - text) : size, rest = end ? size - day - 1 : 0;
    rp_buf_printf(&all, HEAD "%.*s\n", (int)day, text);
    size_t head = all.size;
    rp_buf_add(&all, text + size - rest, rest);
    rp_sha256_hex(hex, all.data, all.size);
    rp_buf_add(out, all.data, head);
    rp_buf_printf(out, "sha256: %s\n", hex);
    rp_buf_add(out, text + size - rest, rest);
}

/* An entry is what adding its key until its day writes. */
static void as_written(const struct rp_trusted *t, const struct rp_buf *text)
{
    struct rp_err err;
    RP_BUF again = {0};
    struct rp_key_pair *k = rp_key_load_public(text->data, text->size, "key", &err);
    must(k && unlink(t->path) == 0 && rp_trust_add(t->name, *t->until ? t->until : NULL, k, &err) == 0);
    must(rp_read_file(&again, t->path, 1u << 20, &err) == 0 && rp_buf_is(&again, text->data, text->size));
    rp_key_free(k);
}

static void look(const struct rp_buf *text)
{
    struct rp_trust_list list;
    struct rp_err err = {0};
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    must(rp_trust_list(&list, &err) == 0 && list.n + list.n_skipped == 1);
    if (list.n_skipped) {
        must(*list.skipped[0] && !strchr(list.skipped[0], '\n'));
    } else {
        const struct rp_trusted *t = &list.key[0];
        must(strlen(t->fingerprint) == RP_FINGERPRINT_SIZE - 1 &&
             (!*t->until || rp_is_date(t->until, strlen(t->until))));
        must(rp_trust_find(t->fingerprint, name, until, &err) == !t->expired && strcmp(name, "name") == 0 &&
             strcmp(until, t->until) == 0);
        if (!t->expired && text->size > strlen(HEAD) && memcmp(text->data, HEAD, strlen(HEAD)) == 0)
            as_written(t, text);
    }
    rp_trust_list_fini(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char home[40];
    struct rp_err err;
    RP_BUF text = {0};
    if (size && *data == 'd')
        with_digest(&text, (const char *)data + 1, size - 1);
    else
        rp_buf_add(&text, data, size);
    /* a disk would be waited for */
    snprintf(home, sizeof home, "%s/fuzz_trust-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(home) != NULL && setenv("XDG_CONFIG_HOME", home, 1) == 0);
    RP_FREE char *config = rp_asprintf("%s/repro", home), *dir = rp_asprintf("%s/trust", config),
                 *file = rp_asprintf("%s/name.pem", dir);
    must(rp_mkdirs(dir, 0700, &err) == 0 && rp_write_file(file, rp_buf_text(&text), text.size, 0644, &err) == 0);
    look(&text);
    must(unlink(file) == 0 && rmdir(dir) == 0 && rmdir(config) == 0 && rmdir(home) == 0);
    return 0;
}
