# mode: full
# Nothing follows the last instruction, so the jump over it gets a target.
	.text
	.globl	f
	.type	f, @function
f:
	mov	%rdx, %rcx
	rep movsq
