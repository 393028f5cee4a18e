	.text
	.globl	halves
	.type	halves, @function
halves:
	push	%rbx
	mov	$1000, %ebx
1:	mov	%ebx, %edi
	call	half
	dec	%ebx
	jnz	1b
	xor	%eax, %eax
	pop	%rbx
	ret
	.size	halves, .-halves
	.section .note.GNU-stack,"",@progbits
