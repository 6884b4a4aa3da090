/* Which machine: names and serial numbers hidden as salted hashes, maker and product in clear. */
#include "capture/probe.h"

#include <stdlib.h>
#include <string.h>

static void hidden_line(struct rp_probe *p, const char *name, const char *path)
{
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state != RP_STATE_OK) {
        rp_put_state(p->out, name, &t);
        return;
    }
    size_t n = strcspn(t.bytes.data, "\r\n");
    if (n > 256)
        rp_put(p->out, name, RP_STATE_ERROR, NULL, path, NULL, "too long");
    else if (n == 0)
        rp_put_absent(p->out, name, path);
    else {
        t.bytes.data[n] = 0;
        rp_put_hidden(p, p->out, name, t.bytes.data, path);
    }
}

void rp_probe_host(struct rp_probe *p)
{
    hidden_line(p, "hostname", "/proc/sys/kernel/hostname");
    hidden_line(p, "machine_id", "/etc/machine-id");
    hidden_line(p, "boot_id", "/proc/sys/kernel/random/boot_id");
    rp_put_line(p, p->out, "vendor", "/sys/class/dmi/id/sys_vendor");
    rp_put_line(p, p->out, "product", "/sys/class/dmi/id/product_name");
    rp_put_line(p, p->out, "board", "/sys/class/dmi/id/board_name");
    rp_put_line(p, p->out, "bios_version", "/sys/class/dmi/id/bios_version");
    rp_put_line(p, p->out, "bios_date", "/sys/class/dmi/id/bios_date");
    hidden_line(p, "product_serial", "/sys/class/dmi/id/product_serial");
    hidden_line(p, "product_uuid", "/sys/class/dmi/id/product_uuid");
    hidden_line(p, "board_serial", "/sys/class/dmi/id/board_serial");
}
