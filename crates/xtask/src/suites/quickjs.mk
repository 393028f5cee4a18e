# QuickJS and its tests, without CMake. Each test file is run by itself, so that each has a result.

ENGINE = quickjs.o quickjs-libc.o dtoa.o libregexp.o libunicode.o
CPPFLAGS = -D_GNU_SOURCE

all: run-test262 api-test lre-test

run-test262 api-test: %: %.o $(ENGINE)
	$(CC) -o $@ $^ -lm -ldl -lpthread

lre-test: lre-test.o libregexp.o libunicode.o
	$(CC) -o $@ $^ -lm

check: all
	@mkdir -p none; status=0; \
	tell() { if [ $$1 = 0 ]; then echo "PASS: $$2"; else echo "FAIL: $$2"; status=1; fi; }; \
	for test in api-test lre-test; do ./$$test; tell $$? $$test; done; \
	for test in `find tests -name '*.js' | sort`; do \
		echo $$test > one.list; \
		./run-test262 -c tests.conf -d none one.list > one.log 2>&1; cat one.log; \
		case `tail -n 1 one.log` in \
			'Result: 0/1 error') tell 0 $$test;; \
			'Result: 0/0 '*excluded) ;; \
			'Result: 0/'*skipped) echo "SKIP: $$test";; \
			*) tell 1 $$test;; \
		esac; \
	done; exit $$status
