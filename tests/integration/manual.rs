//! The manual pages and the completions of shells, as `examples/generate` writes them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use axon::cli::Cli;
use clap::CommandFactory as _;
use tempfile::TempDir;

use crate::harness::program;

/// A folder with `man` and `completions` in it.
fn generated() -> TempDir {
    // Cargo builds examples for a run of all tests, beside the binary.
    let target = Path::new(env!("CARGO_BIN_EXE_axon")).parent().expect("a folder");
    let generator = target.join("examples/generate");
    assert!(generator.exists(), "type: cargo build --example generate");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(generator);
    let output = command.arg(folder.path()).env("SOURCE_DATE_EPOCH", "1796083200").output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

fn pages(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("man")).expect("a folder");
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    pages.sort();
    pages
}

/// A page as text of a terminal that knows neither bold nor underlined.
fn shown(page: &Path) -> String {
    let mut command = Command::new(program("mandoc", "mandoc"));
    let output = command.args(["-T", "ascii", "-O", "width=1000"]).arg(page).output().expect("mandoc runs");
    let text = String::from_utf8(output.stdout).expect("text");
    // Bold is a letter, a step back and the letter again.
    let mut characters: Vec<char> = Vec::new();
    for character in text.chars() {
        if character == '\u{8}' { _ = characters.pop() } else { characters.push(character) }
    }
    characters.into_iter().collect()
}

#[test]
fn a_linter_has_nothing_to_say_of_the_pages() {
    let folder = generated();
    for page in pages(folder.path()) {
        let mut command = Command::new(program("mandoc", "mandoc"));
        let output = command.args(["-T", "lint", "-W", "style"]).arg(&page).output().expect("mandoc runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.is_empty(), "{said}");
    }
    // One that finds everything right, whatever it is given, would prove nothing.
    let wrong = folder.path().join("wrong.1");
    fs::write(&wrong, ".TH wrong\n.SH NAME\nwrong - nothing\n.nosuch\n").expect("a page");
    let output = Command::new(program("mandoc", "mandoc")).args(["-T", "lint", "-W", "style"]).arg(&wrong).output();
    assert!(!output.expect("mandoc runs").stdout.is_empty());
}

#[test]
fn every_subcommand_has_a_page_with_all_that_its_help_says() {
    let folder = generated();
    let mut command = Cli::command();
    command.build();
    let mut expected: Vec<String> = command
        .get_subcommands()
        .filter(|c| c.get_name() != "help")
        .map(|c| format!("axon-{}.1", c.get_name()))
        .collect();
    expected.push("axon.1".into());
    expected.sort();
    let names: Vec<String> = pages(folder.path())
        .iter()
        .map(|page| page.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, expected);

    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = subcommand.get_name();
        let text = shown(&folder.path().join(format!("man/axon-{name}.1")));
        assert!(text.contains("2026-12-01"), "{text}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] {
            assert!(text.lines().any(|line| line == section), "{name}: no {section} in {text}");
        }
        for argument in subcommand.get_arguments() {
            let option =
                argument.get_long().map_or_else(|| argument.get_id().to_string().to_uppercase(), |l| format!("--{l}"));
            assert!(text.contains(&option) || argument.is_positional(), "{name}: no {option} in {text}");
            if let Some(variable) = argument.get_env() {
                let variable = variable.to_str().expect("text");
                let entries = text.split_once("\nENVIRONMENT\n").expect("a section").1;
                assert!(entries.contains(variable), "{name}: no {variable} in {entries}");
            }
        }
        // Examples are as they are typed, in the page as in the help.
        let help = subcommand.get_after_help().expect("sections").to_string();
        let examples = help.split_once("Examples:\n").expect("examples").1;
        for line in examples.lines().filter(|line| !line.is_empty()) {
            assert!(text.contains(line.trim()), "{name}: no {line} in {text}");
        }
    }
    for section in ["SIGNALS", "FILES", "ENVIRONMENT"] {
        let text = shown(&folder.path().join("man/axon-serve.1"));
        assert!(text.lines().any(|line| line == section), "no {section} in {text}");
    }
}

#[test]
fn the_generator_refuses_what_it_does_not_understand() {
    let target = Path::new(env!("CARGO_BIN_EXE_axon")).parent().expect("a folder");
    let run = |arguments: &[&str], epoch: &str| {
        let mut command = Command::new(target.join("examples/generate"));
        command.args(arguments).env("SOURCE_DATE_EPOCH", epoch).output().expect("it runs")
    };
    assert_eq!(run(&[], "0").status.code(), Some(2));
    assert_eq!(run(&["a", "b"], "0").status.code(), Some(2));
    assert_eq!(run(&["/proc/none"], "0").status.code(), Some(1));
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(run(&[folder.path().to_str().expect("a path")], "soon").status.code(), Some(1));
}

/// What bash offers for a line, whose last word is being typed.
fn offered(script: &Path, words: &[&str]) -> Vec<String> {
    // As bash does it on Tab: the function that `complete` names is asked, with the words in variables.
    const ASK: &str = r#"
        source "$1" || exit 1
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        COMP_LINE="$*"
        COMP_POINT=${#COMP_LINE}
        [[ $(complete -p axon) =~ -F\ ([^ ]+) ]] || exit 1
        "${BASH_REMATCH[1]}" axon "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new(program("bash", "bash"))
        .args(["--norc", "-c", ASK, "bash"])
        .arg(script)
        .args(words)
        .output()
        .expect("bash runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<String> = String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    let folder = generated();
    let script = folder.path().join("completions/axon.bash");
    let parsed = Command::new(program("bash", "bash")).arg("-n").arg(&script).status();
    assert!(parsed.is_ok_and(|status| status.success()));
    for (words, expected) in [
        (&["axon", "se"][..], &["serve"][..]),
        (&["axon", "serve", "--log-f"], &["--log-file", "--log-format"]),
        (&["axon", "serve", "--validators", ""], &["full", "mtime"]),
        (&["axon", "check", "--ng"], &["--nginx"]),
        (&["axon", "request", "--frob"], &[""]),
    ] {
        assert_eq!(offered(&script, words), expected, "{words:?}");
    }
    let all = offered(&script, &["axon", ""]);
    for subcommand in Cli::command().get_subcommands() {
        assert!(all.iter().any(|word| word == subcommand.get_name()), "{} in {all:?}", subcommand.get_name());
        for file in ["axon.fish", "_axon"] {
            let text = fs::read_to_string(folder.path().join("completions").join(file)).expect("a file");
            assert!(text.contains(subcommand.get_name()), "{file}: {}", subcommand.get_name());
        }
    }
}
