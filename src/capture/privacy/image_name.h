/* Names of container images: where an image comes from is shown if everybody can get it there, else hidden.
 *
 * What:    "nvcr.io/nvidia/pytorch:24.01-py3@sha256:..." names an image for everybody; "registry.corp:5000/team/image"
 *          also names a company's registry, and "robot:token@registry/image" a way into it.
 * Flow:    [SCHEME://][REGISTRY/]NAME[:TAG][@sha256:DIGEST], sha256:DIGEST or the path of a file -> the same without
 *          SCHEME, folders and REGISTRY, unless that is a public one. A name that is shown stays as it is when it is
 *          read again.
 * Owner:   what is returned is the caller's to free.
 * Extend:  a public registry is a word in image_name.c.
 */
#pragma once

#include <stddef.h>

/* Set by what starts a container whose engine shows no image inside. */
#define RP_IMAGE_VARIABLE "REPRO_IMAGE"

/* NULL: not the name of an image. */
char *rp_image_show(const char *text);
/* The 64 hexadecimal digits at the end of a shown name, NULL where there are none; *name: bytes of the name before. */
const char *rp_image_digest(const char *shown, size_t *name);
