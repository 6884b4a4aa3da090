/* A few facts about an ELF library, read in small pieces: it may be half a gigabyte.
 *
 * What:    the build identifier that its linker wrote, and a text in its constants. 64-bit little-endian files only.
 * Flow:    descriptor of a regular file -> text.
 * Owner:   the caller's buffers.
 * Extend:  another section goes through rp_elf_find()'s way to it.
 */
#pragma once

#include <stddef.h>

#define RP_BUILD_ID 129 /* hex digits of at most 64 bytes, and the NUL */

int rp_elf_build_id(int fd, char out[RP_BUILD_ID]); /* 0, or -1: none, or not such a file */
/* In .rodata (its first 4 MB): the printable text after `mark` up to one of `stops`, if it begins with a digit or a
 * capital letter; at most size - 1 letters. 0, or -1. */
int rp_elf_find(int fd, const char *mark, const char *stops, char *out, size_t size);
