/* The entry of repro-gpu. Its own, because the one of a new glibc asks for GLIBC_2.34: before that version the program hands the
 * function that runs its constructors to __libc_start_main, and later ones still accept it.
 *
 *     __libc_start_main(main, argc, argv, init, fini, rtld_fini, stack_end)
 */
    .section .note.GNU-stack,"",@progbits
    .text
    .globl _start
    .type _start, @function
_start:
#if defined __aarch64__
    mov x29, #0
    mov x30, #0
    mov x5, x0
    ldr x1, [sp]
    add x2, sp, #8
    mov x6, sp
    adrp x0, main
    add x0, x0, :lo12:main
    adrp x3, rp_gpu_init
    add x3, x3, :lo12:rp_gpu_init
    mov x4, #0
    bl __libc_start_main
    brk #0

/* A macro in glibc, a function in musl, for which libcrypto is compiled: it probes instructions with it. The buffers are of one size. */
    .globl sigsetjmp
    .type sigsetjmp, @function
sigsetjmp:
    b __sigsetjmp
#else
    xorl %ebp, %ebp
    movq %rdx, %r9
    popq %rsi
    movq %rsp, %rdx
    andq $-16, %rsp
    pushq %rax
    pushq %rsp
    xorl %r8d, %r8d
    leaq rp_gpu_init(%rip), %rcx
    leaq main(%rip), %rdi
    call *__libc_start_main@GOTPCREL(%rip)
    hlt
#endif
