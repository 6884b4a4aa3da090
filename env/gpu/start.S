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
