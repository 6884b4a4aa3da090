/* Memory modules: slots, sizes, types and speeds from the tables of SMBIOS, which usually only root may read, and the counts of the
 * memory controllers' error correction, which everybody may.
 *
 * The table is a row of structures:
 *     u8 type, u8 length, u16 handle, ... (length bytes in all), then texts, each with its NUL, and one more NUL
 * numbers are little-endian; a text is named by its index, from 1. Offsets below are those of the standard (DSP0134), types 16 and 17.
 */
#include "capture/host/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE "/sys/firmware/dmi/tables/DMI"
#define EDAC "/sys/devices/system/edac/mc"

enum { MAX_MODULES = 256, MAX_CONTROLLERS = 64, ARRAY = 16, MODULE = 17 };

struct structure {
    unsigned char *at;
    size_t length; /* of the numbers; texts follow */
    char *texts, *end;
};

/* The structure at *from; moves *from after it. 0, or -1 at the end or where the table is broken. */
static int next_structure(unsigned char **from, unsigned char *end, struct structure *s)
{
    unsigned char *p = *from;
    if (end - p < 4 || p[1] < 4 || end - p < p[1] + 2)
        return -1;
    s->at = p;
    s->length = p[1];
    s->texts = (char *)p + p[1];
    for (p += p[1]; end - p >= 2 && (p[0] || p[1]); p++)
        ;
    if (end - p < 2)
        return -1;
    s->end = (char *)p + 1; /* after the NUL of the last text */
    *from = p + 2;
    return 0;
}

static uint64_t number_at(const struct structure *s, size_t offset, int bytes)
{
    uint64_t n = 0;
    if (offset + (size_t)bytes <= s->length)
        for (int i = bytes; i-- > 0;)
            n = n << 8 | s->at[offset + (size_t)i];
    return n;
}

/* The text whose index is at the offset, or NULL. */
static char *text_at(const struct structure *s, size_t offset)
{
    unsigned index = (unsigned)number_at(s, offset, 1);
    char *t = s->texts;
    for (; index > 1 && t < s->end && *t; index--)
        t += strlen(t) + 1;
    return index == 1 && t < s->end && *t ? t : NULL;
}

/* Only the memory's structures stay, with serial numbers and asset tags hidden. */
static void redact_serials(const struct rp_probe *p, struct rp_buf *table)
{
    RP_BUF out = {0};
    struct structure s;
    unsigned char *at = (unsigned char *)table->data, *end = at + table->size;
    rp_buf_add(&out, "", 0);
    while (next_structure(&at, end, &s) == 0) {
        if (s.at[0] != ARRAY && s.at[0] != MODULE)
            continue;
        char *serial = s.at[0] == MODULE ? text_at(&s, 0x18) : NULL, *tag = s.at[0] == MODULE ? text_at(&s, 0x19) : NULL;
        rp_buf_add(&out, s.at, s.length);
        for (char *t = s.texts; t < s.end && *t; t += strlen(t) + 1) {
            char hidden[RP_HIDDEN];
            int hide = (t == serial || t == tag) && !p->opts->identify && !rp_is_hidden(t);
            if (hide)
                rp_hide_as(p, "dimms.serial", t, hidden);
            rp_buf_add(&out, hide ? hidden : t, strlen(hide ? hidden : t) + 1);
        }
        rp_buf_add(&out, "\0", s.end - s.texts > 1 ? 1 : 2);
    }
    rp_buf_fini(table);
    *table = out;
    out = (struct rp_buf){0};
}

static const char *type_name(uint64_t type)
{
    static const struct {
        unsigned char code;
        const char *name;
    } types[] = {{0x12, "DDR"},    {0x13, "DDR2"},   {0x18, "DDR3"},   {0x1a, "DDR4"},       {0x1b, "LPDDR"},
                 {0x1c, "LPDDR2"}, {0x1d, "LPDDR3"}, {0x1e, "LPDDR4"}, {0x1f, "persistent"}, {0x20, "HBM"},
                 {0x21, "HBM2"},   {0x22, "DDR5"},   {0x23, "LPDDR5"}, {0x24, "HBM3"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == type)
            return types[i].name;
    return NULL;
}

static void put_text(json_t *obj, const char *name, const char *value)
{
    RP_FREE char *trimmed = value ? rp_trimmed(value, strlen(value)) : NULL;
    rp_put_str(obj, name, trimmed && *trimmed ? trimmed : NULL, TABLE);
}

static void put_known(json_t *obj, const char *name, uint64_t value, const char *unit)
{
    if (value)
        rp_put_int(obj, name, (int64_t)value, TABLE, unit);
    else
        rp_put_absent(obj, name, TABLE);
}

/* In bytes; 0: the slot is empty or its size is not known. */
static uint64_t module_size(const struct structure *s)
{
    uint64_t n = number_at(s, 0x0c, 2);
    if (n == 0xffff)
        return 0;
    if (n == 0x7fff)
        return (number_at(s, 0x1c, 4) & 0x7fffffff) << 20;
    return n & 0x8000 ? (n & 0x7fff) << 10 : n << 20;
}

/* In millions of transfers per second; larger values have another offset. */
static uint64_t speed_of(const struct structure *s, size_t offset, size_t large)
{
    uint64_t n = number_at(s, offset, 2);
    return n == 0xffff ? number_at(s, large, 4) & 0x7fffffff : n;
}

struct totals {
    int64_t slots, filled, bytes, slowest;
    uint64_t correction; /* code of the last array of system memory */
    const char *type;
    int mixed;
};

static void put_module(struct rp_probe *p, json_t *all, const struct structure *s, struct totals *sum)
{
    char key[24];
    uint64_t bytes = module_size(s), at = speed_of(s, 0x20, 0x58);
    const char *type = type_name(number_at(s, 0x12, 1));
    sum->slots++;
    if (!bytes || json_object_size(all) >= MAX_MODULES)
        return;
    json_t *obj = json_object();
    snprintf(key, sizeof key, "dimm%d", (int)sum->filled);
    sum->filled++;
    sum->bytes += (int64_t)bytes;
    sum->slowest = at && (!sum->slowest || (int64_t)at < sum->slowest) ? (int64_t)at : sum->slowest;
    sum->mixed |= sum->type && type && sum->type != type;
    sum->type = type ? type : sum->type;
    rp_put_int(obj, "size", (int64_t)bytes, TABLE, "B");
    put_text(obj, "slot", text_at(s, 0x10));
    put_text(obj, "bank", text_at(s, 0x11));
    put_text(obj, "type", type);
    put_known(obj, "speed", speed_of(s, 0x15, 0x54), "MT/s");
    put_known(obj, "configured_speed", at, "MT/s");
    put_known(obj, "ranks", number_at(s, 0x1b, 1) & 15, NULL);
    put_known(obj, "width", number_at(s, 0x08, 2) == 0xffff ? 0 : number_at(s, 0x08, 2), "bits");
    put_known(obj, "data_width", number_at(s, 0x0a, 2) == 0xffff ? 0 : number_at(s, 0x0a, 2), "bits");
    put_known(obj, "voltage", number_at(s, 0x26, 2), "mV");
    put_text(obj, "manufacturer", text_at(s, 0x17));
    put_text(obj, "part", text_at(s, 0x1a));
    if (text_at(s, 0x18))
        rp_put_hidden(p, obj, "serial", text_at(s, 0x18), TABLE);
    else
        rp_put_absent(obj, "serial", TABLE);
    json_object_set_new(all, key, obj);
}

static void put_modules(struct rp_probe *p)
{
    static const char *const names[] = {"slots", "filled", "size", "type", "configured_speed", "error_correction", "modules"};
    static const char *const corrections[] = {NULL, NULL, NULL, "none", "parity", "single-bit ECC", "multi-bit ECC", "CRC"};
    RP_TEXT t;
    struct structure s;
    struct totals sum = {0};
    rp_text_read_as(&t, p, TABLE, redact_serials);
    unsigned char *at = (unsigned char *)t.bytes.data;
    json_t *all = json_object();
    while (t.state == RP_STATE_OK && next_structure(&at, (unsigned char *)t.bytes.data + t.bytes.size, &s) == 0) {
        if (s.at[0] == MODULE)
            put_module(p, all, &s, &sum);
        else if (s.at[0] == ARRAY && number_at(&s, 5, 1) == 3) /* in use as system memory */
            sum.correction = number_at(&s, 6, 1);
    }
    if (t.state == RP_STATE_OK && !sum.slots) {
        t.state = RP_STATE_ERROR;
        t.detail = "no memory modules in it";
    }
    if (t.state != RP_STATE_OK) {
        json_decref(all);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            rp_put_state(p->out, names[i], &t);
        return;
    }
    rp_put_int(p->out, "slots", sum.slots, TABLE, NULL);
    rp_put_int(p->out, "filled", sum.filled, TABLE, NULL);
    put_known(p->out, "size", (uint64_t)sum.bytes, "B");
    put_text(p->out, "type", sum.mixed ? "mixed" : sum.type);
    put_known(p->out, "configured_speed", (uint64_t)sum.slowest, "MT/s"); /* of the slowest, at which all run */
    put_text(p->out, "error_correction", sum.correction < 8 ? corrections[sum.correction] : NULL);
    json_object_set_new(p->out, "modules", all);
}

static void put_controller(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    char path[RP_PATH];
    json_t *obj = json_object();
    rp_put_line(p, obj, "name", RP_FORMAT(path, "%s/%s/mc_name", dir, name));
    rp_put_number(p, obj, "size", RP_FORMAT(path, "%s/%s/size_mb", dir, name), 1 << 20, "B");
    rp_put_number(p, obj, "corrected", RP_FORMAT(path, "%s/%s/ce_count", dir, name), 1, "errors");
    rp_put_number(p, obj, "uncorrected", RP_FORMAT(path, "%s/%s/ue_count", dir, name), 1, "errors");
    json_object_set_new(group, name, obj);
}

void rp_probe_dimms(struct rp_probe *p)
{
    put_modules(p);
    rp_put_each(p, p->out, "controllers", EDAC, "mc", MAX_CONTROLLERS, put_controller);
}
