/* Names of the lists from which operands are taken: formats of logs and data, forms of jobs. */
#include "cli/help.h"

#include "data/synthetic/make.h"
#include "import/import.h"
#include "launch/form.h"

#include <string.h>

static const char *const exporters[] = {
#define EXPORT(id, writes) #id,
#include "export/exporters.def"
#undef EXPORT
    NULL,
};

static void put_formats(struct rp_buf *out, const char *command)
{
    if (strcmp(command, "import") == 0)
        for (const struct rp_importer *const *i = rp_importers; *i; i++)
            rp_buf_printf(out, " %s", (*i)->name);
    if (strcmp(command, "export") == 0)
        for (const char *const *e = exporters; *e; e++)
            rp_buf_printf(out, " %s", *e);
    if (strcmp(command, "data make") == 0)
        for (const struct rp_generator *const *g = rp_generators; *g; g++)
            rp_buf_printf(out, " %s", (*g)->name);
}

void rp_help_operand_names(struct rp_buf *out, const struct rp_command *c)
{
    if (strncmp(c->operands, "FORMAT", 6) == 0)
        put_formats(out, c->name);
    if (strcmp(c->operands, "KIND") == 0) {
        for (const struct rp_form *f = rp_forms; f->id; f++)
            rp_buf_printf(out, " %s", f->id);
        rp_buf_puts(out, " key whoami");
    }
}
