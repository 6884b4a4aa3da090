/* Which machine: names and serial numbers hidden as salted hashes, maker and product in clear. */
#include "capture/probe.h"

#define PRODUCT "/sys/class/dmi/id/product_name"
#define MODEL "/sys/firmware/devicetree/base/model" /* of boards without DMI, such as Jetson's */

void rp_probe_host(struct rp_probe *p)
{
    rp_put_hidden_line(p, p->out, "hostname", "/proc/sys/kernel/hostname");
    rp_put_hidden_line(p, p->out, "machine_id", "/etc/machine-id");
    rp_put_hidden_line(p, p->out, "boot_id", "/proc/sys/kernel/random/boot_id");
    rp_put_line(p, p->out, "vendor", "/sys/class/dmi/id/sys_vendor");
    rp_put_line(p, p->out, "product", rp_probe_exists(p, PRODUCT) || !rp_probe_exists(p, MODEL) ? PRODUCT : MODEL);
    rp_put_line(p, p->out, "board", "/sys/class/dmi/id/board_name");
    rp_put_line(p, p->out, "bios_version", "/sys/class/dmi/id/bios_version");
    rp_put_line(p, p->out, "bios_date", "/sys/class/dmi/id/bios_date");
    rp_put_hidden_line(p, p->out, "product_serial", "/sys/class/dmi/id/product_serial");
    rp_put_hidden_line(p, p->out, "product_uuid", "/sys/class/dmi/id/product_uuid");
    rp_put_hidden_line(p, p->out, "board_serial", "/sys/class/dmi/id/board_serial");
}
