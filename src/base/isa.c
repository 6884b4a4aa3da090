/* The instruction sets by name. */
#include "base/isa.h"

#include <stdio.h>
#include <string.h>

static const struct rp_isa_row rows[] = {
#define ROW(X, name, machine, flops, ...) {#name, flops, {__VA_ARGS__}},
    RP_ISA_ROWS(ROW, )
#undef ROW
};
#define ROWS (sizeof rows / sizeof *rows)

const struct rp_isa_row *rp_isa_find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

double rp_isa_most_flops(void)
{
    double most = 0;
    for (size_t i = 0; i < ROWS; i++)
        most = rows[i].flops > most ? rows[i].flops : most;
    return most;
}

const char *rp_arm_name(unsigned long implementer, unsigned long part)
{
#define PART(of, number, name)                                                                                         \
    if (implementer == (of) && part == (number))                                                                       \
        return name;
#include "base/arm_parts.def"
#undef PART
    return NULL;
}

void rp_arm_names_add(char names[128], unsigned long implementer, unsigned long part)
{
    const char *name = rp_arm_name(implementer, part);
    const size_t n = strlen(names), length = name ? strlen(name) : 0;
    for (const char *at = names; length && *at; at += at[strcspn(at, "+")] == '+' ? strcspn(at, "+") + 2 : strlen(at))
        if (strncmp(at, name, length) == 0 && (!at[length] || at[length] == ' '))
            return;
    if (length)
        snprintf(names + n, 128 - n, "%s%s", n ? " + " : "", name);
}
