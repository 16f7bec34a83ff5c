//! A disk whose files fail, crawl or hang as their names say: see `tests/disks/faulty.py`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use super::{Site, leave_out, tests_run_as_root, wait_until};

/// How many bytes each of its files has.
pub const FAULTY_LEN: usize = 1_000_000;

/// The Python for which Debian and Ubuntu install packages; another one, earlier on PATH, does not see them.
const PYTHON: &str = "/usr/bin/python3";

/// Mounted beneath a site's root; unmounted when it is dropped.
pub struct FaultyDisk {
    child: Child,
    mount: PathBuf,
    release: PathBuf,
}

impl FaultyDisk {
    /// Mounts it at a name beneath the root, or with an empty name in the root's place. None where this machine does not let it; see [`leave_out`].
    #[track_caller]
    pub fn mount(site: &Site, name: &str) -> Option<Self> {
        let release = site.beside(&format!("disk-{name}.release"));
        Self::run("faulty.py", site, site.path(name), release, "fine-0")
    }

    /// Mounts one to write to instead, that can do little: see `tests/disks/writable.py`. What is written to it lies in
    /// the directory beside.
    #[track_caller]
    pub fn writable(site: &Site, mount: &Path, beside: &Path) -> Option<Self> {
        fs::write(beside.join("mounted"), "").expect("a file");
        let disk = Self::run("writable.py", site, mount.to_owned(), beside.to_owned(), "mounted");
        fs::remove_file(beside.join("mounted")).expect("it was there");
        disk
    }

    /// Runs a script, whose second argument is `with`, until there is the file `probe`.
    #[track_caller]
    fn run(script: &str, site: &Site, mount: PathBuf, with: PathBuf, probe: &str) -> Option<Self> {
        let name = mount.file_name().unwrap_or_default().to_string_lossy();
        let complaints = site.beside(&format!("disk-{name}.stderr"));
        if !mount.exists() {
            fs::create_dir(&mount).expect("a directory");
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disks").join(script);
        let mut command = Command::new(PYTHON);
        command.arg(script).arg(&mount).arg(&with).stderr(File::create(&complaints).expect("a file"));
        let Ok(child) = command.spawn() else {
            leave_out(&format!("no disk that fails: there is no {PYTHON}"));
            return None;
        };
        let mut disk = Self { child, mount, release: with };
        let mut ended = None;
        wait_until("the disk is mounted or refused", || {
            ended = disk.child.try_wait().expect("a child");
            ended.is_some() || disk.path(probe).exists()
        });
        if ended.is_some() {
            let complaint = fs::read_to_string(&complaints).unwrap_or_default();
            let last = complaint.lines().last().unwrap_or("it ended without a word");
            leave_out(&format!("no disk that fails: {last} (needs /dev/fuse, python3-fusepy, and root or fusermount)"));
            return None;
        }
        Some(disk)
    }

    /// Where one of its files is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mount.join(name)
    }

    /// Lets reads of hung files end.
    pub fn release(&self) {
        File::create(&self.release).expect("a file");
    }

    /// What its files hold.
    pub fn content() -> Vec<u8> {
        (0..FAULTY_LEN).map(|offset| (offset % 251) as u8).collect()
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        // Reads that hang would keep the mount, and a process that waits for one cannot even be killed.
        let _ = File::create(&self.release);
        let mut command = if tests_run_as_root() { Command::new("umount") } else { Command::new("fusermount") };
        command.args(if tests_run_as_root() { &["-l"][..] } else { &["-u", "-z"] });
        let _ = command.arg(&self.mount).status();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
