# Nothing is left to return to a second time.
	.globl f
	.type f, @function
f:
	jmp _setjmp@PLT
	.size f, .-f
