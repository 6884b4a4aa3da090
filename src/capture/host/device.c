#include "capture/host/device.h"

#include "capture/record.h"
#include "capture/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 8192, MAX_LISTED = 256 };

int rp_is_plain_name(const char *name)
{
    size_t n = strlen(name);
    return n && n < 64 && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:@+-") == n &&
           strcmp(name, "state") != 0;
}

const char *rp_join(char out[RP_PATH], const char *dir, const char *name)
{
    snprintf(out, RP_PATH, "%s/%s", dir, name);
    return out;
}

void rp_put_optional(const struct rp_probe *p, json_t *obj, const char *name, const char *path, int64_t scale,
                     const char *unit)
{
    RP_TEXT t;
    int64_t n;
    rp_text_read(&t, p, path);
    if (t.state == RP_STATE_ERROR && strcmp(t.detail, "cannot be read") == 0)
        rp_put_absent(obj, name, path);
    else if (t.state == RP_STATE_OK && rp_parse_count(t.bytes.data, &n) == 0 && n <= INT64_MAX / scale)
        rp_put_int(obj, name, n * scale, path, unit);
    else if (t.state == RP_STATE_OK && strncmp(t.bytes.data, "-1", 2) == 0)
        rp_put_absent(obj, name, path);
    else
        rp_put_invalid(obj, name, &t, unit, "not a number");
}

void rp_put_signed(const struct rp_probe *p, json_t *obj, const char *name, const char *path, const char *unit)
{
    RP_TEXT t;
    int64_t n;
    rp_text_read(&t, p, path);
    int negative = t.state == RP_STATE_OK && t.bytes.data[0] == '-';
    if (t.state == RP_STATE_OK && rp_parse_count(t.bytes.data + negative, &n) == 0)
        rp_put_int(obj, name, negative ? -n : n, path, unit);
    else
        rp_put_invalid(obj, name, &t, unit, "not a number");
}

/* "16.0 GT/s PCIe": the number before the first blank. */
static void put_leading_real(const struct rp_probe *p, json_t *obj, const char *name, const char *path,
                             const char *unit)
{
    RP_TEXT t;
    char *end = NULL;
    rp_text_read(&t, p, path);
    double x = t.state == RP_STATE_OK ? strtod(t.bytes.data, &end) : 0;
    if (end && t.bytes.data[0] >= '0' && t.bytes.data[0] <= '9' && (*end == ' ' || *end == '\n' || !*end) && x < 1e15)
        rp_put_real(obj, name, x, path, unit);
    else if (end && strncmp(t.bytes.data, "Unknown", 7) == 0)
        rp_put_absent(obj, name, path);
    else
        rp_put_invalid(obj, name, &t, unit, "no number");
}

json_t *rp_probe_query_files(const struct rp_probe *p, const char *what, rp_query *ask)
{
    struct rp_probe quiet = *p;
    quiet.record = NULL;
    json_t *answer = rp_probe_query(p, what, NULL, ask);
    if (!answer && !p->live && (answer = ask(&quiet, NULL)) && p->record)
        rp_record_answer(p->record, what, answer);
    return answer;
}

void rp_put_unlisted(json_t *obj, const char *name, const struct rp_dirlist *d, const char *dir)
{
    enum rp_state state = d->state == RP_STATE_OK ? RP_STATE_ABSENT : d->state;
    rp_put(obj, name, state, NULL, dir, NULL, state == RP_STATE_ERROR ? d->detail : NULL);
}

void rp_put_names(const struct rp_probe *p, json_t *obj, const char *name, const char *dir, const char *prefix)
{
    RP_DIRLIST d = {0};
    rp_dirlist_read(&d, p, dir, MAX_NAMES);
    if (d.state == RP_STATE_OK) {
        json_t *list = json_array();
        for (int i = 0; i < d.n && json_array_size(list) < MAX_LISTED; i++)
            if (rp_is_plain_name(d.name[i]) && strncmp(d.name[i], prefix, strlen(prefix)) == 0)
                json_array_append_new(list, json_string(d.name[i]));
        rp_put(obj, name, RP_STATE_OK, list, dir, NULL, NULL);
    } else
        rp_put_unlisted(obj, name, &d, dir);
}

void rp_put_each(const struct rp_probe *p, json_t *obj, const char *name, const char *dir, const char *prefix,
                 size_t max, void (*one)(const struct rp_probe *p, json_t *group, const char *dir, const char *name))
{
    RP_DIRLIST d = {0};
    rp_dirlist_read(&d, p, dir, MAX_NAMES);
    if (d.state != RP_STATE_OK) {
        rp_put_unlisted(obj, name, &d, dir);
        return;
    }
    json_t *group = json_object();
    for (int i = 0; i < d.n && json_object_size(group) < max; i++)
        if (rp_is_plain_name(d.name[i]) && strncmp(d.name[i], prefix, strlen(prefix)) == 0)
            one(p, group, dir, d.name[i]);
    json_object_set_new(obj, name, group);
}

void rp_put_device(const struct rp_probe *p, json_t *obj, const char *dir)
{
    static const char *const keys[][2] = {{"driver", "DRIVER"},
                                          {"pci_address", "PCI_SLOT_NAME"},
                                          {"pci_id", "PCI_ID"},
                                          {"pci_subsystem", "PCI_SUBSYS_ID"}};
    RP_TEXT t;
    char path[RP_PATH];
    rp_text_read(&t, p, rp_join(path, dir, "uevent"));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        rp_put_field(obj, keys[i][0], &t, keys[i][1], '=');
    const char *driver = rp_known_text(obj, "driver");
    char file[RP_PATH];
    snprintf(file, sizeof file, "/sys/module/%s/version", driver && rp_is_plain_name(driver) ? driver : "<driver>");
    if (driver)
        rp_put_line(p, obj, "driver_version", file); /* a driver that is not the kernel's own has one */
    else
        rp_put_absent(obj, "driver_version", file);
    rp_put_optional(p, obj, "numa_node", rp_join(file, dir, "numa_node"), 1, NULL);
    static const char *const links[][2] = {{"pcie_speed", "current_link_speed"}, {"pcie_speed_max", "max_link_speed"}};
    static const char *const widths[][2] = {{"pcie_width", "current_link_width"}, {"pcie_width_max", "max_link_width"}};
    for (int i = 0; i < 2; i++) {
        put_leading_real(p, obj, links[i][0], rp_join(file, dir, links[i][1]), "GT/s");
        rp_put_optional(p, obj, widths[i][0], rp_join(file, dir, widths[i][1]), 1, "lanes");
    }
}
