#include "launch/form.h"

#include "base/embed.h"
#include "base/text.h"

#include <string.h>

const struct rp_form rp_forms[] = {
#define FORM(id, file, what) {id, "src/launch/forms/" file, what},
#include "launch/forms.def"
#undef FORM
    {0},
};

#define ALPHANUMERIC "abcdefghijklmnopqrstuvwxyz0123456789"
enum { NAME_MAX_SIZE = 40 };

static int check_text(const char *option, const char *text, const char *allowed, struct rp_err *err)
{
    char shown[72];
    if (*text && *text != '-' && text[strspn(text, allowed)] == 0)
        return 0;
    return rp_fail(err, RP_USAGE, "--%s '%s': expected letters, digits and %s, and no hyphen first", option,
                   rp_excerpt(shown, text), allowed + strspn(allowed, ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
}

/* Nothing that a shell or YAML would take for more than a word. */
static int check_opts(const struct rp_form_opts *o, struct rp_err *err)
{
    char shown[72];
    if (*o->name < 'a' || *o->name > 'z' || strlen(o->name) > NAME_MAX_SIZE ||
        o->name[strspn(o->name, ALPHANUMERIC "-")] || rp_ends_with(o->name, "-"))
        return rp_fail(err, RP_USAGE,
                       "--name '%s': expected at most %d lower-case letters, digits and hyphens, a letter first, no "
                       "hyphen last",
                       rp_excerpt(shown, o->name), NAME_MAX_SIZE);
    if (check_text("recipe", o->recipe, ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZ._/+-", err) < 0)
        return -1;
    return o->image ? check_text("image", o->image, ALPHANUMERIC "ABCDEFGHIJKLMNOPQRSTUVWXYZ._/:@#+-", err) : 0;
}

static void put_value(struct rp_buf *out, const char *name, size_t n, const struct rp_form_opts *o)
{
    const struct {
        const char *name;
        long value;
    } numbers[] = {{"NODES", o->nodes},
                   {"RANKS", o->ranks_per_node},
                   {"TOTAL", o->nodes * o->ranks_per_node},
                   {"OTHERS", o->nodes - 1},
                   {"GPUS", o->gpus_per_node}};
    const char *image = o->image ? o->image : "";
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == n && memcmp(numbers[i].name, name, n) == 0)
            rp_buf_printf(out, "%ld", numbers[i].value);
    if (n == 4 && memcmp(name, "NAME", n) == 0)
        rp_buf_puts(out, o->name);
    if (n == 5 && memcmp(name, "IMAGE", n) == 0)
        rp_buf_puts(out, image);
    if (n == 3 && memcmp(name, "URI", n) == 0) /* a file is taken as it is */
        rp_buf_printf(
            out, "%s%s",
            strstr(image, "://") || *image == '/' || *image == '.' || rp_ends_with(image, ".sif") ? "" : "docker://",
            image);
    if (n == 6 && memcmp(name, "RECIPE", n) == 0)
        rp_buf_puts(out, o->recipe);
    if (n == 3 && memcmp(name, "SET", n) == 0 && o->accumulation)
        rp_buf_printf(out, " --set train.accumulation_steps=%ld", o->accumulation);
    if (n == 8 && memcmp(name, "SETWORDS", n) == 0 && o->accumulation)
        rp_buf_printf(out, "\"--set\", \"train.accumulation_steps=%ld\", ", o->accumulation);
}

/* The length of the word in "@WORD@" at p, 0 if there is none. */
static size_t placeholder_size(const char *p, const char *end)
{
    size_t n = 0;
    while (p + 1 + n < end && p[1 + n] >= 'A' && p[1 + n] <= 'Z')
        n++;
    return *p == '@' && n && p + 1 + n < end && p[1 + n] == '@' ? n : 0;
}

static void put_line(struct rp_buf *out, const char *line, const char *end, const struct rp_form_opts *o)
{
    static const char many[] = "@MANY@", gpu[] = "@GPU@";
    if ((size_t)(end - line) >= sizeof many - 1 && memcmp(line, many, sizeof many - 1) == 0) {
        if (o->nodes < 2)
            return;
        line += sizeof many - 1;
    }
    if ((size_t)(end - line) >= sizeof gpu - 1 && memcmp(line, gpu, sizeof gpu - 1) == 0) {
        if (o->gpus_per_node < 1)
            return;
        line += sizeof gpu - 1;
    }
    while (line < end) {
        const char *at = memchr(line, '@', (size_t)(end - line));
        size_t n = at ? placeholder_size(at, end) : 0;
        const char *to = n ? at : at ? at + 1 : end;
        rp_buf_add(out, line, (size_t)(to - line));
        if (n)
            put_value(out, at + 1, n, o);
        line = n ? at + n + 2 : to;
    }
}

int rp_form_write(struct rp_buf *out, const char *id, const struct rp_form_opts *o, struct rp_err *err)
{
    const struct rp_form *f = rp_forms;
    char shown[72];
    RP_BUF kinds = {0};
    for (; f->id && strcmp(f->id, id) != 0; f++)
        rp_buf_printf(&kinds, "%s%s", kinds.size ? ", " : "", f->id);
    if (!f->id)
        return rp_fail(err, RP_USAGE, "'%s' is not a kind of launch: expected one of %s ('repro help launch')",
                       rp_excerpt(shown, id), kinds.data);
    const struct rp_embed *e = rp_embed_find(f->file);
    RP_BUG_IF(!e);
    const char *text = (const char *)e->data, *end = text + e->size;
    if (check_opts(o, err) < 0)
        return -1;
    if (!o->image && (memmem(text, e->size, "@IMAGE@", 7) || memmem(text, e->size, "@URI@", 5)))
        return rp_fail(err, RP_USAGE, "launch %s: needs --image, the container image of the ranks", id);
    while (text < end) {
        const char *line = text, *next = memchr(text, '\n', (size_t)(end - text));
        text = next ? next + 1 : end;
        put_line(out, line, text, o);
    }
    return 0;
}
