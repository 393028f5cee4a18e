//! The table of answers: the code that answers each call.

use crate::calls::SOCKETS;
use crate::descriptors::Descriptors;
use crate::errno::Errno;
use crate::files::CWD;
use crate::heap::Heap;
use crate::paths::copy_in;
use crate::process::Exit;
use crate::tenant::State;
use crate::walk::{Intent, Last};
use crate::words::word;
use crate::{Arbiter, Request, changes, directories, files, process, sockets, spawn, start, transfer, wait};
use sfi_contract::requests;
use sfi_loader::HostCall;
use std::time::Duration;

impl Arbiter {
    /// Answers a granted call. Flags and numbers of 32 bits are read from the lower half of their
    /// register, as in the kernel.
    pub(crate) fn answer(
        &mut self,
        cx: &mut HostCall<'_>,
        state: &mut State,
        heap: &mut Heap,
        request: &Request,
    ) -> Result<u64, Errno> {
        let [a, b, c, d, e, _] = request.args;
        let (files, tree) = (&mut state.files, &mut state.tree);
        let (spending, clock) = (&mut self.spending, self.clock);
        // Waiting ends with the timer and with signals of other processes, because they interrupt.
        let longest = || state.signals.patience(self.patience);
        let patience = |time| clock.patience(time);
        let found = |files: &Descriptors, at: u64, path: u64, last: Last, intent: Intent| {
            tree.find(cx, files, (at, path), last, intent)
        };
        let look = |files: &Descriptors, at: u64, path: u64| found(files, at, path, Last::Follow, Intent::Read);
        let change = |files: &Descriptors, at: u64, path: u64| found(files, at, path, Last::Follow, Intent::Change);
        let entry = |files: &Descriptors, at: u64, path: u64| found(files, at, path, Last::Keep, Intent::Change);
        match request.number {
            libc::SYS_read => transfer::read(cx, files, a, &[(b, c)], longest()),
            libc::SYS_readv => transfer::read(cx, files, a, &transfer::vector(cx, b, c)?, longest()),
            libc::SYS_pread64 => transfer::pread(cx, files, a, &[(b, c)], d),
            libc::SYS_preadv => transfer::pread(cx, files, a, &transfer::vector(cx, b, c)?, d),
            libc::SYS_write => transfer::write(cx, files, a, &[(b, c)], spending, longest()),
            libc::SYS_writev => transfer::write(cx, files, a, &transfer::vector(cx, b, c)?, spending, longest()),
            libc::SYS_pwrite64 => transfer::pwrite(cx, files, a, &[(b, c)], d, spending),
            libc::SYS_pwritev => transfer::pwrite(cx, files, a, &transfer::vector(cx, b, c)?, d, spending),
            libc::SYS_lseek => spending.alone(|_| files::seek(files, a, b, c)),
            libc::SYS_close => files.close(a),
            libc::SYS_dup => files.duplicate(a, 0, false),
            libc::SYS_dup2 => files.duplicate_to(a, b, None),
            libc::SYS_dup3 => files.duplicate_to(a, b, Some(c)),
            libc::SYS_pipe => transfer::pipe(cx, files, (a, 0), self.threads),
            libc::SYS_pipe2 => transfer::pipe(cx, files, (a, b), self.threads),
            libc::SYS_poll => wait::poll_list(cx, files, (a, b), wait::milliseconds(c).map(patience), longest()),
            libc::SYS_ppoll => wait::poll_list(cx, files, (a, b), wait::time_at(cx, c, 1)?.map(patience), longest()),
            libc::SYS_select => {
                wait::select(cx, files, [a, b, c, d], wait::time_at(cx, e, 1000)?.map(patience), longest())
            }
            libc::SYS_pselect6 => {
                wait::select(cx, files, [a, b, c, d], wait::time_at(cx, e, 1)?.map(patience), longest())
            }
            libc::SYS_fcntl => files.control(a, b, c),
            libc::SYS_ioctl => files::ioctl(cx, files, a, b, c),
            libc::SYS_fstat => files::fstat(cx, files, a, (b, clock)),
            libc::SYS_fsync | libc::SYS_fdatasync => files::sync(files, a),
            libc::SYS_ftruncate => changes::truncate(files, a, b, spending),
            libc::SYS_fadvise64 => files.get(a).map(|_| 0),

            libc::SYS_open => files::open(cx, tree, files, (CWD, a), (b, c), spending),
            libc::SYS_openat => files::open(cx, tree, files, (a, b), (c, d), spending),
            libc::SYS_creat => {
                let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
                files::open(cx, tree, files, (CWD, a), (flags, b), spending)
            }
            libc::SYS_stat => files::stat(cx, tree, files, (CWD, a), 0, (b, clock)),
            libc::SYS_lstat => files::stat(cx, tree, files, (CWD, a), libc::AT_SYMLINK_NOFOLLOW as u64, (b, clock)),
            libc::SYS_newfstatat => files::stat(cx, tree, files, (a, b), d, (c, clock)),
            libc::SYS_statx => files::statx(cx, tree, files, (a, b), c, (e, clock)),
            libc::SYS_access => files::access(&look(files, CWD, a)?, b),
            libc::SYS_faccessat | libc::SYS_faccessat2 => files::access(&look(files, a, b)?, c),
            libc::SYS_readlink => files::read_link(&found(files, CWD, a, Last::Keep, Intent::Read)?, cx, b, c),
            libc::SYS_readlinkat => files::read_link(&found(files, a, b, Last::Keep, Intent::Read)?, cx, c, d),
            libc::SYS_getdents64 => directories::entries(cx, files, a, (b, c)),
            libc::SYS_getcwd => directories::working(cx, tree, a, b),
            libc::SYS_chdir => directories::change(cx, tree, a),
            libc::SYS_fchdir => directories::change_to(tree, files, a),

            libc::SYS_unlink => changes::unlink(&entry(files, CWD, a)?, 0),
            libc::SYS_rmdir => changes::unlink(&entry(files, CWD, a)?, libc::AT_REMOVEDIR as u64),
            libc::SYS_unlinkat => changes::unlink(&entry(files, a, b)?, c),
            libc::SYS_rename => changes::rename(&entry(files, CWD, a)?, &entry(files, CWD, b)?, 0),
            libc::SYS_renameat => changes::rename(&entry(files, a, b)?, &entry(files, c, d)?, 0),
            libc::SYS_renameat2 => changes::rename(&entry(files, a, b)?, &entry(files, c, d)?, e),
            libc::SYS_mkdir => {
                changes::mkdir(&found(files, CWD, a, Last::Keep, Intent::Read)?, tree.umask, b, spending)
            }
            libc::SYS_mkdirat => {
                changes::mkdir(&found(files, a, b, Last::Keep, Intent::Read)?, tree.umask, c, spending)
            }
            libc::SYS_truncate => changes::truncate_path(&change(files, CWD, a)?, b, spending),
            libc::SYS_link => changes::link(&entry(files, CWD, a)?, &entry(files, CWD, b)?, spending),
            // Neither links to follow nor descriptors without a name.
            libc::SYS_linkat if e as i32 != 0 => Err(Errno::INVAL),
            libc::SYS_linkat => changes::link(&entry(files, a, b)?, &entry(files, c, d)?, spending),
            libc::SYS_symlink => changes::symlink(&copy_in(cx, a)?, &entry(files, CWD, b)?, spending),
            libc::SYS_symlinkat => changes::symlink(&copy_in(cx, a)?, &entry(files, b, c)?, spending),
            libc::SYS_chmod => changes::chmod(&change(files, CWD, a)?, b),
            libc::SYS_fchmodat => changes::chmod(&change(files, a, b)?, c),
            libc::SYS_fchmod => changes::fchmod(files, a, b),
            // Files belong to the host's users, so nothing changes.
            libc::SYS_chown | libc::SYS_lchown | libc::SYS_fchown | libc::SYS_fchownat => Err(Errno::PERM),
            libc::SYS_utimensat => changes::set_times(cx, tree, files, (a, b), c),

            libc::SYS_brk => heap.brk(cx, a),
            libc::SYS_mmap => heap.map(cx, files, &request.args),
            libc::SYS_munmap => heap.unmap(cx, a, b),
            libc::SYS_mprotect => heap.protect(cx, a, b, c),
            libc::SYS_mremap => heap.remap(cx, &request.args),
            libc::SYS_madvise => heap.check(a, b).map(|()| 0),

            libc::SYS_clock_gettime => clock.get(cx, a, b),
            libc::SYS_clock_getres => clock.resolution(cx, a, b),
            libc::SYS_gettimeofday => clock.time_of_day(cx, a),
            libc::SYS_time => clock.seconds(cx, a),
            libc::SYS_times => clock.times(cx, a),
            libc::SYS_getrusage => clock.usage(cx, b),
            libc::SYS_nanosleep => clock.sleep(cx, a, b, state.signals.patience(Duration::MAX)),
            libc::SYS_clock_nanosleep => clock.sleep_on(cx, [a, b, c, d], state.signals.patience(Duration::MAX)),
            libc::SYS_getrandom => transfer::random(cx, a, b),

            number if SOCKETS.contains(&number) && !self.loopback => Err(self.denial.errno()),
            libc::SYS_socket => sockets::socket(files, a, b, c),
            libc::SYS_socketpair => sockets::pair(cx, files, &request.args),
            libc::SYS_bind => sockets::bind(cx, files, &request.args),
            libc::SYS_listen => sockets::listen(files, a, b),
            libc::SYS_accept => sockets::accept(cx, files, [a, b, c], 0, longest()),
            libc::SYS_accept4 => sockets::accept(cx, files, [a, b, c], d, longest()),
            libc::SYS_connect => sockets::connect(cx, files, &request.args, longest()),
            libc::SYS_getsockname => sockets::name(cx, files, [a, b, c], false),
            libc::SYS_getpeername => sockets::name(cx, files, [a, b, c], true),
            libc::SYS_setsockopt => sockets::set(cx, files, &request.args),
            libc::SYS_getsockopt => sockets::get(cx, files, &request.args),
            libc::SYS_shutdown => sockets::shutdown(files, a, b),
            libc::SYS_sendto => sockets::send(cx, files, &request.args, spending, longest()),
            libc::SYS_recvfrom => sockets::receive(cx, files, &request.args, longest()),

            libc::SYS_exit | libc::SYS_exit_group => {
                state.exit = Some(Exit(a as i32));
                Ok(0)
            }
            libc::SYS_getpid => Ok(self.number()),
            libc::SYS_gettid | libc::SYS_set_tid_address | libc::SYS_getpgrp => Ok(process::SELF),
            libc::SYS_getppid => Ok(state.children.parent()),
            libc::SYS_getuid | libc::SYS_geteuid | libc::SYS_getgid | libc::SYS_getegid => Ok(0),
            libc::SYS_uname => process::uname(cx, a),
            libc::SYS_sysinfo => process::sysinfo(cx, a, heap.size()),
            libc::SYS_getrlimit => process::limit(cx, [a, 0, b], files.limit(), heap.size().0),
            libc::SYS_prlimit64 if a > process::SELF => Err(Errno::PERM),
            libc::SYS_prlimit64 => process::limit(cx, [b, c, d], files.limit(), heap.size().0),
            libc::SYS_umask => Ok(std::mem::replace(&mut tree.umask, a as u32 & 0o777).into()),
            libc::SYS_futex => process::futex(cx, &request.args, &clock),
            // Threads have answers of their own (see `crew`). A domain without threads has one.
            libc::SYS_clone | libc::SYS_set_robust_list | libc::SYS_get_robust_list => Err(Errno::NOSYS),
            libc::SYS_sched_yield => Ok(0),
            libc::SYS_sched_getaffinity => process::affinity(cx, b, c),
            libc::SYS_rt_sigaction => state.signals.action(cx, &request.args),
            libc::SYS_rt_sigprocmask => state.signals.mask(cx, &request.args),
            libc::SYS_rt_sigreturn => Ok(state.signals.end(a)),
            libc::SYS_rt_sigpending => state.signals.pending(cx, a),
            libc::SYS_rt_sigsuspend => {
                let mask = Some(word(cx, a)?);
                state.signals.suspend(mask, self.quota.sleep)
            }
            libc::SYS_rt_sigtimedwait => state.signals.wait(cx, &request.args, self.quota.sleep),
            libc::SYS_pause => state.signals.suspend(None, self.quota.sleep),
            libc::SYS_alarm => Ok(state.signals.alarm(a)),
            libc::SYS_setitimer => state.signals.timer(cx, a, b, c),
            libc::SYS_getitimer => state.signals.timer(cx, a, 0, b),
            libc::SYS_sigaltstack => state.signals.stack(cx, a, b),
            libc::SYS_kill => spawn::kill(state, self.number(), a, b),
            libc::SYS_tkill => state.signals.send(&[a], b),
            requests::EXECUTE => self.spawn(cx, state, &request.args),
            libc::SYS_execve => self.execute(cx, state, [a, b, c]),
            libc::SYS_fork | libc::SYS_vfork => self.fork(cx, state, heap),
            libc::SYS_wait4 => self.wait(cx, state, &request.args),
            libc::SYS_tgkill => state.signals.send(&[a, b], c),
            libc::SYS_arch_prctl => start::set_thread_pointer(cx.thread_pointer(), a, b),
            _ => Err(self.denial.errno()),
        }
    }
}
