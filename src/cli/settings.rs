//! What `axon serve` is told, and `axon check` as well.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use tracing::Level;

use crate::{
    cli::values,
    server::{Config, HandlerOptions, ServerOptions, SettingsFile, SocketOptions, ValidatorFacts},
    telemetry::{LogFormat, LogOptions},
    transport::{Address, TransportOptions},
};

// Everything but the root. No documentation here: it would take the place of the help of whoever includes this.
#[derive(Args, Clone, Debug)]
pub(super) struct Settings {
    /// Listen here for the uwsgi protocol, in nginx's spelling; may be repeated (in the environment: separated by
    /// commas). Not needed where systemd passes a socket. Example: --uwsgi unix:/run/axon/axon.sock --uwsgi
    /// 127.0.0.1:3031
    #[arg(long, env = "AXON_UWSGI", value_name = "ADDR", value_delimiter = ',', help_heading = "Listening")]
    uwsgi: Vec<Address>,

    /// The mode of unix sockets, in octal. Whoever may write to one can make requests in anybody's name.
    /// Example: --socket-mode 0600
    #[arg(long, env = "AXON_SOCKET_MODE", value_name = "MODE", default_value = "0660", value_parser = values::mode, help_heading = "Listening")]
    socket_mode: u32,

    /// The group of unix sockets, by name or number; nginx must be in it. Unchanged by default.
    /// Example: --socket-group www-data
    #[arg(long, env = "AXON_SOCKET_GROUP", value_name = "GROUP", help_heading = "Listening")]
    socket_group: Option<String>,

    /// Worker threads, each with a runtime of its own [default: the number of CPUs]. Example: --workers 4
    #[arg(long, env = "AXON_WORKERS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Listening")]
    workers: Option<u16>,

    /// Serve names with a component that starts with a dot as well; by default they are not found (in the environment:
    /// true or false). Example: --dotfiles
    #[arg(long, env = "AXON_DOTFILES", action = ArgAction::SetTrue, value_parser = clap::builder::BoolishValueParser::new(), help_heading = "Files")]
    dotfiles: bool,

    /// What entity tags are made of: full counts size, mtime and ctime; mtime leaves ctime out, for machines that
    /// hold copies of the same files. Who may write the files can then keep a tag for other content by setting the
    /// time back. Example: --validators mtime
    #[arg(
        long,
        env = "AXON_VALIDATORS",
        value_name = "FACTS",
        value_enum,
        default_value = "full",
        help_heading = "Files"
    )]
    validators: Validators,

    /// The secret behind entity tags and boundaries, made with mode 0600 if it is missing; SIGHUP reads it again.
    /// Random at every start by default, so that clients fetch again after a restart.
    /// Example: --secret-file /var/lib/axon/secret
    #[arg(long, env = "AXON_SECRET_FILE", value_name = "PATH", help_heading = "Files")]
    pub(super) secret_file: Option<PathBuf>,

    /// The most files a request may name. Example: --max-files 5000
    #[arg(long, env = "AXON_MAX_FILES", value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    max_files: u32,

    /// The longest request body that is read. Example: --max-body 4m
    #[arg(long, env = "AXON_MAX_BODY", value_name = "SIZE", default_value = "1m", value_parser = values::size, help_heading = "Limits")]
    max_body: u64,

    /// The most connections at once; the next ones wait in the backlog of 4096. Example: --max-connections 20000
    #[arg(long, env = "AXON_MAX_CONNECTIONS", value_name = "N", default_value = "8192", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    max_connections: u32,

    /// How long a peer may take to send its request. Example: --head-timeout 5s
    #[arg(long, env = "AXON_HEAD_TIMEOUT", value_name = "TIME", default_value = "10s", value_parser = values::timeout, help_heading = "Limits")]
    head_timeout: Duration,

    /// How long a reader may take nothing; longer than nginx's send_timeout. Example: --stall-timeout 10m
    #[arg(long, env = "AXON_STALL_TIMEOUT", value_name = "TIME", default_value = "300s", value_parser = values::timeout, help_heading = "Limits")]
    stall_timeout: Duration,

    /// How long running answers may take to finish after SIGTERM. Example: --drain-timeout 2m
    #[arg(long, env = "AXON_DRAIN_TIMEOUT", value_name = "TIME", default_value = "30s", value_parser = values::duration, help_heading = "Limits")]
    drain_timeout: Duration,

    /// How much is handed to the kernel in one call, 4k to 16m. Example: --chunk-size 128k
    #[arg(long, env = "AXON_CHUNK_SIZE", value_name = "SIZE", default_value = "64k", value_parser = values::chunk_size, help_heading = "Limits")]
    chunk_size: usize,

    /// Append records to this file, which SIGHUP reopens; standard error by default.
    /// Example: --log-file /var/log/axon/axon.log
    #[arg(long, env = "AXON_LOG_FILE", value_name = "PATH", help_heading = "Logging")]
    pub(super) log_file: Option<PathBuf>,

    /// How records are written [default: text on a terminal, else json]. Example: --log-format text
    #[arg(long, env = "AXON_LOG_FORMAT", value_name = "FORMAT", value_enum, help_heading = "Logging")]
    log_format: Option<Format>,

    /// The least grave records that are written: error, warn, info, debug or trace. Example: --log-level debug
    #[arg(long, env = "AXON_LOG_LEVEL", value_name = "LEVEL", default_value = "info", help_heading = "Logging")]
    log_level: Level,

    /// Whether every request leaves a record. Example: --access-log off
    #[arg(
        long,
        env = "AXON_ACCESS_LOG",
        value_name = "SWITCH",
        value_enum,
        default_value = "on",
        help_heading = "Logging"
    )]
    access_log: Switch,

    /// A file of AXON_ lines that the environment was made of, as systemd's EnvironmentFile=; it is not read for the
    /// start. On SIGHUP AXON_LOG_LEVEL in it counts, unless --log-level was typed, and the log names what else has
    /// changed in it and needs a restart. Example: --reload-file /etc/axon/axon.env
    #[arg(long, env = "AXON_RELOAD_FILE", value_name = "PATH", help_heading = "Logging")]
    reload_file: Option<PathBuf>,

    /// Whether the log level was typed, and so is nobody else's to change.
    #[arg(skip)]
    pub(super) log_level_was_typed: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Validators {
    Full,
    Mtime,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
    Text,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl Settings {
    pub(super) fn log_options(&self) -> LogOptions {
        let format = self.log_format.map(|format| match format {
            Format::Json => LogFormat::Json,
            Format::Text => LogFormat::Text,
        });
        LogOptions { file: self.log_file.clone(), format, level: self.log_level }
    }

    pub(super) fn settings_file(&self) -> Option<SettingsFile> {
        let path = self.reload_file.as_deref()?;
        Some(SettingsFile::read(path, self.log_level, self.log_level_was_typed))
    }

    /// A server of a directory.
    pub(super) fn config(&self, root: PathBuf) -> Config {
        let defaults = ServerOptions::default();
        let validators = match self.validators {
            Validators::Full => ValidatorFacts::Full,
            Validators::Mtime => ValidatorFacts::Mtime,
        };
        Config {
            root,
            addresses: self.uwsgi.clone(),
            socket: SocketOptions { mode: self.socket_mode, group: self.socket_group.clone() },
            secret_file: self.secret_file.clone(),
            handler: HandlerOptions {
                max_files: self.max_files as usize,
                max_body: self.max_body,
                dotfiles: self.dotfiles,
                validators,
            },
            server: ServerOptions {
                workers: self.workers.map_or(defaults.workers, usize::from),
                max_connections: self.max_connections as usize,
                drain_timeout: self.drain_timeout,
                access_log: matches!(self.access_log, Switch::On),
                transport: TransportOptions {
                    head_timeout: self.head_timeout,
                    stall_timeout: self.stall_timeout,
                    chunk_size: self.chunk_size,
                    ..defaults.transport
                },
            },
        }
    }
}
