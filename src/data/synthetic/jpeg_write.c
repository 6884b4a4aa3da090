#include "data/synthetic/jpeg_write.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

/* Only a defect of this program, or no memory, can make the encoder fail. */
__attribute__((noreturn)) static void on_error(j_common_ptr c)
{
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    rp_bug(__FILE__, __LINE__, text);
}

void rp_jpeg_write(struct rp_buf *out, const uint8_t *pixels, int width, int height, const struct rp_jpeg_form *form)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    c.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &bytes, &size);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = form->components;
    c.in_color_space = form->components == 1 ? JCS_GRAYSCALE : form->components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    if (form->ycck)
        jpeg_set_colorspace(&c, JCS_YCCK);
    jpeg_set_quality(&c, form->quality, TRUE);
    c.dct_method = JDCT_ISLOW;
    c.restart_in_rows = form->restart_rows;
    c.arith_code = form->arithmetic ? TRUE : FALSE;
    if (form->components == 3 || form->ycck) {
        c.comp_info[0].h_samp_factor = form->across ? form->across : 2;
        c.comp_info[0].v_samp_factor = form->down ? form->down : 2;
    }
    if (form->ycck) { /* black is sampled like luma */
        c.comp_info[3].h_samp_factor = c.comp_info[0].h_samp_factor;
        c.comp_info[3].v_samp_factor = c.comp_info[0].v_samp_factor;
    }
    if (form->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = (JSAMPROW)pixels + (size_t)c.next_scanline * (size_t)width * (size_t)form->components;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    rp_buf_add(out, bytes, size);
    free(bytes);
}
