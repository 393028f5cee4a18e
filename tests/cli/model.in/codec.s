	.text
	.globl	half
	.type	half, @function
half:
	mov	%edi, %eax
	shr	%eax
	ret
	.size	half, .-half
	.section .note.GNU-stack,"",@progbits
