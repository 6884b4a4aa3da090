/* Any bytes as a page that is held against an honest, countersigned bundle, or changes to the page that it has: what is taken is ours but for
 * the text in its box. The first byte says of what the rest are changes:
 *
 *   0 its page   1 its Markdown   2 a page of two bundles, both at hand   3 the same, the other not at hand   else none: the rest is the page
 *   "old" TAB "new"           the first place of a text
 *   "@PLACE N" TAB "new"      N bytes at PLACE, in decimal digits
 *   "+FROM N" TAB "TO"        N bytes once more */
#include "tests/fuzz/honest.h"

#include "page/box.h"
#include "sign/countersign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const int fuzz_is_slow; /* replay.c */
const int fuzz_is_slow = 1;

static struct shown {
    struct rp_verification v;
    struct rp_verified kept;
    struct rp_shown_bundle b;
} bundle[2];
static struct rp_buf pages[4]; /* of '0' and so on */

/* ---- the pages ---- */

static void countersign(struct rp_bundle *b, const struct rp_key_pair *key)
{
    struct rp_err err;
    RP_BUF seal = {0}, pem = {0};
    struct rp_countersignature c = {.role = "reviewer", .at = "2026-11-21T06:27:54Z", .program = "repro 1", .note = "<b>"};
    MUST(rp_countersign_seal(&seal, &c, attack_bytes(b, "statement.dsse.json"), key, &err) == 0);
    rp_key_public_pem(key, &pem);
    fx_add(b, "signatures/0.dsse.json", seal.data, seal.size);
    fx_add(b, "signatures/0.pem", pem.data, pem.size);
}

static void make_bundle(struct shown *s, const struct fx *x, const char *name, const struct rp_key_pair *author, const struct rp_key_pair *other)
{
    char path[64];
    struct rp_bundle b;
    struct rp_err err = {0};
    struct rp_verify_opts o = {.keep = &s->kept};
    honest_seal(&b, x, author);
    countersign(&b, other);
    int fd = honest_file(&b, path);
    MUST(rp_verify(&s->v, path, &o, &err) == 0);
    s->b = (struct rp_shown_bundle){.name = name, .v = &s->v, .kept = &s->kept};
    close(fd);
    rp_bundle_fini(&b);
}

static void start(void)
{
    struct fx x;
    struct rp_shown_bundle both[2];
    if (pages[0].size)
        return;
    struct rp_key_pair *a = fx_key("a"), *b = fx_key("b");
    honest_fx(&x);
    make_bundle(&bundle[0], &x, "one.repro.tar.zst", a, b);
    make_bundle(&bundle[1], &x, "two.repro.tar.zst", b, a);
    both[0] = bundle[0].b;
    both[1] = bundle[1].b;
    rp_page_html(&pages[0], both, 1);
    rp_page_markdown(&pages[1], both, 1);
    rp_page_html(&pages[2], both, 2);
    rp_page_html(&pages[3], both, 2);
    rp_key_free(a);
    rp_key_free(b);
    fx_fini(&x);
    scratch_exit();
    MUST(!tap_failures);
}

/* ---- changes ---- */

static void splice(struct rp_buf *page, size_t at, size_t n, const char *text, size_t size)
{
    RP_BUF out = {0};
    rp_buf_add(&out, page->data, at);
    rp_buf_add(&out, text, size);
    rp_buf_add(&out, page->data + at + n, page->size - at - n);
    rp_buf_fini(page);
    *page = out;
    out = (struct rp_buf){0};
}

static size_t number(const char **at, const char *end)
{
    size_t n = 0;
    while (*at < end && **at >= '0' && **at <= '9' && n < 1u << 24)
        n = n * 10 + (size_t)(*(*at)++ - '0');
    *at += *at < end;
    return n;
}

static void change(struct rp_buf *page, const char *old, size_t n, const char *new, size_t size)
{
    const char *place, *at = old + 1;
    if (page->size > 1u << 20 || !n)
        return;
    if (*old == '@' || *old == '+') {
        size_t from = number(&at, old + n) % (page->size + 1), length = number(&at, old + n);
        length = length < page->size - from ? length : page->size - from;
        at = new;
        if (*old == '@') {
            splice(page, from, length, new, size);
        } else {
            RP_BUF copy = {0};
            rp_buf_add(&copy, page->data + from, length);
            splice(page, number(&at, new + size) % (page->size + 1), 0, copy.data, copy.size);
        }
    } else if ((place = memmem(page->data, page->size, old, n))) {
        splice(page, (size_t)(place - page->data), n, new, size);
    }
}

static void change_all(struct rp_buf *page, const char *text, size_t size)
{
    const char *tab, *end;
    for (size_t i = 0, n; i < size; i += n + 1) {
        end = memchr(text + i, '\n', size - i);
        n = end ? (size_t)(end - text) - i : size - i;
        if ((tab = memchr(text + i, '\t', n)))
            change(page, text + i, (size_t)(tab - text) - i, tab + 1, n - (size_t)(tab + 1 - text - (long)i));
    }
}

/* ---- what has to hold ---- */

/* Without what stands between the marks of the box, and what stands there. */
static void split(const struct rp_buf *page, int markdown, struct rp_buf *body, struct rp_buf *box)
{
    const char *open = rp_box_open[markdown], *close = rp_box_close[markdown];
    const char *from = memmem(page->data, page->size, open, strlen(open)), *to;
    MUST(from && (from += strlen(open)) && (to = memmem(from, page->size - (size_t)(from - page->data), close, strlen(close))));
    rp_buf_add(body, page->data, (size_t)(from - page->data));
    rp_buf_add(body, to, page->size - (size_t)(to - page->data));
    rp_buf_add(box, from, (size_t)(to - from));
    rp_buf_text(box);
}

/* The body is ours, and the box has no kind of markup that ours lacks. */
static void no_more(const struct rp_buf *page, const struct rp_buf *ours, int markdown)
{
    static const char *const tags[] = {"div class=\"verdict ", "/div>", "svg width=\"28\" ", "circle cx=\"12\" ", "path d=\"M", "/svg>", "h2>", "/h2>", "p>", "/p>",
                                       "details>", "details open>", "summary>", "/summary>", "div class=\"wide\">", "table>", "caption>", "/caption>",
                                       "thead>", "tr>", "th scope=\"", "/th>", "/tr>", "/thead>", "tbody>", "td class=\"state ", "td>", "/td>",
                                       "/tbody>", "/table>", "/details>"};
    RP_BUF body = {0}, box = {0}, own_body = {0}, own_box = {0};
    split(page, markdown, &body, &box);
    split(ours, markdown, &own_body, &own_box);
    MUST(rp_buf_is(&body, own_body.data, own_body.size) && strlen(box.data) == box.size);
    for (const char *p = box.data; (p = strchr(p, '<')); p++) {
        int known = 0;
        for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
            known |= strncmp(p + 1, tags[i], strlen(tags[i])) == 0;
        MUST(!markdown && known);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_check_result r = {0};
    struct rp_err err = {0};
    RP_BUF page = {0};
    if (!size)
        return 0;
    start();
    int kind = *data >= '0' && *data <= '3' ? *data - '0' : -1;
    if (kind < 0) {
        rp_buf_add(&page, data, size);
    } else {
        rp_buf_add(&page, pages[kind].data, pages[kind].size);
        change_all(&page, (const char *)data + 1, size - 1);
    }
    const struct rp_buf *ours = &pages[kind < 0 ? 0 : kind];
    rp_buf_text(&page);
    int same = rp_buf_is(&page, ours->data, ours->size);
    int rc = rp_page_check(&r, &page, &bundle[0].b, &bundle[1].b, kind == 2, &err);
    printable(r.text, 0);
    if (rc == 0) {
        MUST(r.state == RP_CHECK_PASSED || (r.state == RP_CHECK_NOTE && !memmem(page.data, page.size, rp_box_open[1], 20)));
        if (r.state == RP_CHECK_PASSED && kind >= 0)
            no_more(&page, ours, kind == 1);
    } else {
        MUST(err.code == RP_MISMATCH || err.code == RP_UNAVAILABLE);
        MUST(*err.msg && (!same || kind == 3));
        printable(err.msg, 0);
    }
    MUST(!same || (kind == 3 ? err.code == RP_UNAVAILABLE : r.state == RP_CHECK_PASSED));
    return 0;
}
