//! Bodies that others wrote, and what is no bundle.

use std::{fs, path::Path, process::Command};

use super::{Target, body, part};
use crate::harness::program;

#[test]
fn a_form_that_node_wrote() {
    // No part says its length, and names are escaped as browsers do.
    let script = r#"
        const form = new FormData();
        form.append("one", new File(["\r\n--\r\n-\r\n"], "a \"quoted\".txt", { type: "text/plain" }));
        form.append("two", new File([], "empty.bin"));
        form.append("three", new File([new Uint8Array(300000).map((_, i) => i * 7)], "ünï/../日本.bin"));
        form.append("four", "no file");
        form.append("five", new File(["last"], "100%.txt"));
        new Response(form).arrayBuffer().then((body) => process.stdout.write(Buffer.from(body)));
    "#;
    let target = Target::new();
    let said = target.unpack_to(1, written_by(&program("node", "nodejs"), "-e", script), &[]);
    assert_eq!(
        said,
        "axon: ünï/../日本.bin: not unpacked: a name with .. is not unpacked\n\
         axon: (no name): not unpacked: it has no name to save it under\n"
    );
    let read = |name: &str| fs::read(target.path(name)).expect("a file");
    assert_eq!(read("a \"quoted\".txt"), b"\r\n--\r\n-\r\n");
    assert_eq!((read("empty.bin"), read("100%.txt")), (b"".to_vec(), b"last".to_vec()));
    assert_eq!(target.files().len(), 3);
}

#[test]
fn a_mail_that_python_wrote() {
    let script = r#"
import sys
from email.mime.multipart import MIMEMultipart
from email.mime.application import MIMEApplication
from email.encoders import encode_base64, encode_noop
from email.policy import SMTP
mail = MIMEMultipart(boundary="==a=b==")
for name, encoder in [("plain.bin", encode_noop), ("coded.bin", encode_base64)]:
    part = MIMEApplication(b"x\r\ny", _encoder=encoder)
    part.add_header("Content-Disposition", "attachment", filename=name)
    mail.attach(part)
whole = mail.as_bytes(policy=SMTP)
sys.stdout.buffer.write(whole[whole.index(b"\r\n\r\n") + 4:])
"#;
    let target = Target::new();
    let said = target.unpack_to(1, written_by(&program("python3", "python3"), "-c", script), &[]);
    assert_eq!(
        said,
        "axon: coded.bin: not unpacked: its content is encoded as base64, and nothing is decoded here; ask for it \
         without\n"
    );
    assert_eq!(fs::read(target.path("plain.bin")).expect("a file"), b"x\r\ny");
}

#[test]
fn what_is_no_bundle_is_named() {
    let target = Target::new();
    for (input, words) in [
        ("", "there is nothing to unpack"),
        ("H", "begins with H"),
        ("HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n", "leave out curl's -i"),
        ("HTTP/2 404\r\n\r\n", "leave out curl's -i"),
        ("{\"status\":404,\"title\":\"Not Found\"}", "{\"status\":404"),
        ("<html>\r\n<head><title>502 Bad Gateway</title></head>", "<html>"),
        ("\x1b]0;title\x07plain", "\\u{1b}]0;title\\u{7}plain"),
        ("---\ntitle: front matter\n---\n", "does not end with CR LF"),
        ("---\r\ntitle: front matter\r\n\r\ntext\r\n-----", "does not begin with a boundary line"),
        ("-- a comment\r\nSELECT 1;\r\n", "a part's head"),
        ("\r\n\r\n--x\r\n", "this is no bundle"),
    ] {
        let said = target.unpack_to(1, input, &[]);
        assert!(said.contains(words), "{words}: {said}");
        assert!(said.len() < 400, "{said}");
    }
    assert!(target.tree().is_empty());
    // A bundle of none is one, and is none.
    let said = target.unpack_to(1, "--x--\r\n", &[]);
    assert!(said.contains("it is cut in a part's head"), "{said}");
}

#[test]
fn a_body_may_begin_with_a_line_break() {
    let target = Target::new();
    target.unpack_to(0, format!("\r\n{}", body(&[part("a.txt", "1")])), &[]);
    assert_eq!(target.files(), ["a.txt"]);
}

/// What a script gives out.
fn written_by(interpreter: &Path, option: &str, script: &str) -> Vec<u8> {
    let output = Command::new(interpreter).args([option, script]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
