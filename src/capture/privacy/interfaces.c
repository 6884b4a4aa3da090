/* Directories and files with names of network interfaces and RDMA devices, read with the names that are shown. */
#include "capture/host/device.h"
#include "capture/privacy/interface_names.h"

#include <stdlib.h>
#include <string.h>

static int by_shown_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Each entry becomes "shown", NUL, "real". */
static void read_names(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max,
                       void (*show)(const struct rp_probe *p, const char *name, char out[RP_INTERFACE]))
{
    int kept = 0;
    rp_dirlist_read(d, p, path, max);
    for (int i = 0; i < d->n; i++) {
        char shown[RP_INTERFACE];
        char *real = d->name[i];
        show(p, real, shown);
        if (rp_is_plain_name(shown) && strcmp(real, "bonding_masters") != 0)
            d->name[kept++] = rp_asprintf("%s%c%s", shown, 0, real);
        free(real);
    }
    d->n = kept;
    if (kept)
        qsort(d->name, (size_t)kept, sizeof *d->name, by_shown_name);
}

void rp_interfaces_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max)
{
    read_names(d, p, path, max, rp_interface_show);
}

void rp_rdma_read(struct rp_dirlist *d, const struct rp_probe *p, const char *path, int max)
{
    read_names(d, p, path, max, rp_rdma_show);
}

const char *rp_interface_real(const char *shown)
{
    return shown + strlen(shown) + 1;
}

static void redact_names(const struct rp_probe *p, struct rp_buf *text)
{
    static const char blanks[] = " \t\r\n";
    RP_BUF old = *text;
    *text = (struct rp_buf){0};
    rp_buf_add(text, "", 0);
    for (const char *s = rp_buf_text(&old); *s;) {
        size_t n = strcspn(s, blanks), gap = strspn(s + n, blanks);
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, s);
        char shown[RP_INTERFACE];
        if (n) {
            rp_interface_show(p, word, shown);
            rp_buf_puts(text, shown);
        }
        rp_buf_add(text, s + n, gap);
        s += n + gap;
    }
}

void rp_put_interfaces_line(const struct rp_probe *p, json_t *obj, const char *name, const char *path)
{
    RP_TEXT t;
    rp_text_read_as(&t, p, path, redact_names);
    RP_FREE char *line = t.state == RP_STATE_OK ? rp_trimmed(t.bytes.data, t.bytes.size) : NULL;
    rp_put_found(obj, name, line, &t);
}
