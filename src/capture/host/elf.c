#include "capture/host/elf.h"

#include "base/buf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADERS = 4096, MAX_NOTES = 1 << 16, MAX_CONSTANTS = 4 << 20 };

static int read_at(int fd, void *out, size_t size, uint64_t offset)
{
    return offset < INT64_MAX && pread(fd, out, size, (off_t)offset) == (ssize_t)size ? 0 : -1;
}

static int read_header(int fd, Elf64_Ehdr *h)
{
    return read_at(fd, h, sizeof *h, 0) == 0 && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
                   h->e_ident[EI_CLASS] == ELFCLASS64 && h->e_ident[EI_DATA] == ELFDATA2LSB
               ? 0
               : -1;
}

/* A row of notes: { u32 size of the name, u32 size of the content, u32 type } name content, both padded to 4 bytes. */
static int find_build_id(const unsigned char *notes, size_t size, char out[RP_BUILD_ID])
{
    Elf64_Nhdr n;
    for (size_t at = 0; size - at >= sizeof n;) {
        memcpy(&n, notes + at, sizeof n);
        at += sizeof n;
        size_t name = ((size_t)n.n_namesz + 3) & ~(size_t)3, content = ((size_t)n.n_descsz + 3) & ~(size_t)3;
        if (name > size - at || content > size - at - name)
            return -1;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(notes + at, "GNU", 4) == 0 && n.n_descsz &&
            n.n_descsz <= 64) {
            rp_hex(out, notes + at + name, n.n_descsz);
            return 0;
        }
        at += name + content;
    }
    return -1;
}

int rp_elf_build_id(int fd, char out[RP_BUILD_ID])
{
    Elf64_Ehdr h;
    Elf64_Phdr segment;
    if (read_header(fd, &h) < 0 || h.e_phentsize != sizeof segment)
        return -1;
    for (unsigned i = 0; i < h.e_phnum && i < MAX_HEADERS; i++) {
        if (read_at(fd, &segment, sizeof segment, h.e_phoff + i * sizeof segment) < 0)
            return -1;
        if (segment.p_type != PT_NOTE || segment.p_filesz > MAX_NOTES)
            continue;
        RP_FREE unsigned char *notes = rp_alloc(segment.p_filesz + 1);
        if (read_at(fd, notes, segment.p_filesz, segment.p_offset) == 0 &&
            find_build_id(notes, segment.p_filesz, out) == 0)
            return 0;
    }
    return -1;
}

/* There is a NUL after the n bytes. */
static int find_text(const char *bytes, size_t n, const char *mark, const char *stops, char *out, size_t size)
{
    const char *end = bytes + n;
    for (const char *hit = bytes; (hit = memmem(hit, (size_t)(end - hit), mark, strlen(mark)));) {
        size_t len = 0;
        hit += strlen(mark);
        if ((*hit < '0' || *hit > '9') && (*hit < 'A' || *hit > 'Z'))
            continue;
        while (len + 1 < size && hit[len] >= ' ' && hit[len] <= '~' && !strchr(stops, hit[len]))
            len++;
        memcpy(out, hit, len);
        out[len] = 0;
        return 0;
    }
    return -1;
}

int rp_elf_find(int fd, const char *mark, const char *stops, char *out, size_t size)
{
    Elf64_Ehdr h;
    Elf64_Shdr names, section;
    char name[sizeof ".rodata"];
    if (read_header(fd, &h) < 0 || h.e_shentsize != sizeof section || h.e_shstrndx >= h.e_shnum ||
        read_at(fd, &names, sizeof names, h.e_shoff + h.e_shstrndx * sizeof names) < 0)
        return -1;
    for (unsigned i = 0; i < h.e_shnum && i < MAX_HEADERS; i++) {
        if (read_at(fd, &section, sizeof section, h.e_shoff + i * sizeof section) < 0)
            return -1;
        if (section.sh_type != SHT_PROGBITS || read_at(fd, name, sizeof name, names.sh_offset + section.sh_name) < 0 ||
            memcmp(name, ".rodata", sizeof name) != 0)
            continue;
        size_t n = section.sh_size < MAX_CONSTANTS ? (size_t)section.sh_size : MAX_CONSTANTS;
        RP_FREE char *bytes = rp_alloc(n + 1);
        ssize_t got = section.sh_offset < INT64_MAX ? pread(fd, bytes, n, (off_t)section.sh_offset) : -1;
        return got > 0 ? find_text(bytes, (size_t)got, mark, stops, out, size) : -1;
    }
    return -1;
}
