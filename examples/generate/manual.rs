//! One manual page for the program and one for each subcommand.
//!
//! What the help says below its options is in sections, each under a line that ends in a colon:
//!
//! ```text
//! Files:
//!   /etc/axon/axon.env  the settings of axon.service
//! ```
//!
//! In a page they stand under their usual names. Examples stay as they are; elsewhere a line begins with what it is
//! about, then come two spaces or more, and what is said of it.

use std::{
    env, fs, io,
    path::Path,
    process::{self, Stdio},
};

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};

/// How sections of the help are called in a manual page, in the order of `man-pages(7)`.
const SECTIONS: [(&str, &str); 5] = [
    ("Exit codes", "EXIT STATUS"),
    ("Environment", "ENVIRONMENT"),
    ("Files", "FILES"),
    ("Signals", "SIGNALS"),
    ("Examples", "EXAMPLES"),
];

/// What the pages are a part of.
const MANUAL: &str = "Axon";

/// Writes all pages into a folder.
pub(crate) fn write(command: Command, folder: &Path) -> io::Result<()> {
    let date = date()?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut names = vec![String::from("axon")];
    names.extend(command.get_subcommands().map(|subcommand| format!("axon-{}", subcommand.get_name())));
    let version = command.get_version().unwrap_or_default().to_owned();
    for subcommand in command.get_subcommands() {
        page(subcommand.clone(), &version, &date, &names, folder)?;
    }
    page(command, &version, &date, &names, folder)
}

fn page(command: Command, version: &str, date: &str, names: &[String], folder: &Path) -> io::Result<()> {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let variables: Vec<(String, String)> = command
        .get_arguments()
        .filter_map(|argument| {
            let variable = argument.get_env()?.to_string_lossy().into_owned();
            Some((variable, format!("the same as --{}", argument.get_long()?)))
        })
        .collect();
    let has_subcommands = command.has_subcommands();
    // As in the help: what must be given, and that there are options.
    let usage = command.clone().render_usage().to_string();
    let command = command.override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let man = Man::new(command).title(name.to_uppercase()).date(date).source(format!("axon {version}")).manual(MANUAL);

    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if has_subcommands {
        man.render_subcommands_section(&mut out)?;
    }
    let mut out = tidied(&String::from_utf8_lossy(&out)).into_bytes();
    let mut roff = Roff::new();
    for (heading, title) in SECTIONS {
        let lines = section(&help, heading);
        let generated = if heading == "Environment" { variables.as_slice() } else { &[] };
        if lines.is_empty() && generated.is_empty() {
            continue;
        }
        roff.control("SH", [title]);
        if heading == "Examples" {
            verbatim(&mut roff, &lines);
        } else {
            let said = lines.iter().map(|line| entry(line));
            for (what, text) in generated.iter().cloned().chain(said) {
                roff.control("TP", []);
                roff.text([bold(what)]);
                roff.text([roman(text)]);
            }
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    let others = names.iter().filter(|other| **other != name).map(|other| format!("{other}(1)"));
    roff.text([roman(others.chain(["nginx(8)".into()]).collect::<Vec<_>>().join(", "))]);
    roff.to_writer(&mut out)?;
    fs::write(folder.join(man.get_filename()), out)
}

/// The sections that clap_mangen wrote, as mandoc and groff want them: groups of options below OPTIONS, where one of them
/// is called FILES, no spaces at the end, lines of at most 80 bytes, and one break where there are several.
fn tidied(page: &str) -> String {
    let mut out = String::new();
    let mut in_options = false;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        // It writes a break of a line, an empty one and another break.
        if line == ".br" && (lines.peek() == Some(&"") || out.ends_with("\n.sp\n")) {
            continue;
        }
        let line = if line.is_empty() { ".sp" } else { line };
        match line.strip_prefix(".SH ") {
            Some("OPTIONS") => in_options = true,
            Some("SUBCOMMANDS") => in_options = false,
            Some(heading) if in_options => {
                let (first, rest) = heading.split_at(heading.len().min(1));
                out += ".SS ";
                out += first;
                out += &rest.to_lowercase();
                out.push('\n');
                continue;
            }
            _ => {}
        }
        out += &if line.starts_with('.') { line.to_owned() } else { wrapped(line) };
        out.push('\n');
    }
    out
}

/// A line of text in lines of at most 80 bytes, where it has spaces.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut len = 0;
    for word in text.split_ascii_whitespace() {
        if len > 0 && len + 1 + word.len() > 80 {
            out.push('\n');
            len = 0;
        } else if len > 0 {
            out.push(' ');
            len += 1;
        }
        // At the start of a line these would be commands.
        let escape = if len == 0 && word.starts_with(['.', '\'']) { "\\&" } else { "" };
        out += escape;
        out += word;
        len += escape.len() + word.len();
    }
    out
}

/// The lines below a heading, without their indentation of two.
fn section<'a>(help: &'a str, heading: &str) -> Vec<&'a str> {
    let below = help.lines().skip_while(|line| line.strip_suffix(':') != Some(heading)).skip(1);
    let mut lines: Vec<&str> = below
        .take_while(|line| line.is_empty() || line.starts_with("  "))
        .map(|line| line.strip_prefix("  ").unwrap_or_default())
        .collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines
}

/// What a line is about, and what it says.
fn entry(line: &str) -> (String, String) {
    let (what, text) = line.split_once("  ").unwrap_or((line, ""));
    (what.to_owned(), text.trim_start().to_owned())
}

/// Lines as they are.
fn verbatim(roff: &mut Roff, lines: &[&str]) {
    roff.control("nf", []);
    roff.control("RS", ["4"]);
    for line in lines {
        roff.text([roman(*line)]);
    }
    roff.control("RE", []);
    roff.control("fi", []);
}

/// Today, or the day of `SOURCE_DATE_EPOCH`, as 2026-12-31.
fn date() -> io::Result<String> {
    let moment = env::var("SOURCE_DATE_EPOCH").map_or_else(|_| "now".to_owned(), |seconds| format!("@{seconds}"));
    let output =
        process::Command::new("date").args(["-u", "+%Y-%m-%d", "-d", &moment]).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("date does not understand SOURCE_DATE_EPOCH: {moment}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
