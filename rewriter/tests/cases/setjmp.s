# A place that control returns to twice has a slot. The call of setjmp passes it in r11.
	.globl f
	.type f, @function
f:
	push %rbx
	sub $16, %rsp
	call _setjmp@PLT
	test %eax, %eax
	je 1f
	call *__sigsetjmp@GOTPCREL(%rip)
1:	add $16, %rsp
	pop %rbx
	ret
	.size f, .-f
