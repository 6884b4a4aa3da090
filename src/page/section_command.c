/* Another program's command: the results of its log, how it ended, its files, and the end of what it wrote. */
#include "page/section.h"

#include "report/tables.h"

#include <string.h>

#define SHOWN 16384 /* bytes of each stream, from its end */

static void put_end(struct rp_section *s, const char *name, const char *title)
{
    const struct rp_member *m = rp_bundle_find(&s->b->kept->bundle, name);
    if (!m || !m->bytes.size)
        return;
    const char *text = rp_buf_text(&m->bytes);
    size_t size = m->bytes.size;
    if (size > SHOWN) {
        const char *line = memchr(text + size - SHOWN, '\n', SHOWN);
        const size_t from = line ? (size_t)(line + 1 - text) : size - SHOWN;
        text += from;
        size -= from;
    }
    rp_buf_printf(s->out, "<details><summary>%s%s</summary><pre tabindex=\"0\" role=\"region\" aria-label=\"%s\">",
                  title, size < m->bytes.size ? ", the end" : "", title);
    rp_html_lines(s->out, text, size);
    rp_buf_puts(s->out, "</pre></details>\n");
}

void rp_section_command(struct rp_section *s)
{
    rp_section_table(s, rp_table_command);
    put_end(s, RP_LOG_FILE, "The log");
    put_end(s, RP_LOG_STDOUT, "Standard output");
    put_end(s, RP_LOG_STDERR, "Standard error");
    const int ended_by = (int)s->b->v->run->command->ended_by;
    if (!ended_by)
        return;
    RP_FREE char *out = rp_asprintf("Standard output of process %d, which ended the command", ended_by);
    RP_FREE char *error = rp_asprintf("Standard error of process %d", ended_by);
    put_end(s, RP_OF_PROCESS(ended_by, ".stdout"), out);
    put_end(s, RP_OF_PROCESS(ended_by, ".stderr"), error);
}
