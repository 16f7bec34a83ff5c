//! Which form an answer has: by `format`, by Accept, by the number of files.

use super::*;

const MANY: &str = "file1=f3&file2=f4";

fn shape(query: &str, accept: Option<&str>) -> String {
    let fields: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
    let answer = get(query, &fields);
    assert_eq!(answer.status.as_u16(), 200, "{query} {accept:?}");
    assert_eq!(field(&answer, "vary"), "Accept", "{query} {accept:?}");
    field(&answer, "content-type").split(';').next().expect("a type").to_owned()
}

#[test]
fn accept_chooses_among_the_shapes_of_a_bundle() {
    for (accept, expected) in [
        (None, "multipart/mixed"),
        (Some("*/*"), "multipart/mixed"),
        (Some("multipart/*"), "multipart/mixed"),
        (Some("multipart/form-data"), "multipart/form-data"),
        (Some("multipart/related"), "multipart/related"),
        (Some("multipart/form-data;q=0.4, multipart/related;q=0.6"), "multipart/related"),
        (Some("multipart/form-data;q=0.4, */*;q=0.6"), "multipart/mixed"),
        (Some("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"), "multipart/mixed"),
        // What cannot be given is answered with what there is.
        (Some("image/png"), "multipart/mixed"),
        (Some("application/json"), "multipart/mixed"),
        (Some("multipart/byteranges"), "multipart/mixed"),
        (Some("nonsense"), "multipart/mixed"),
    ] {
        assert_eq!(shape(MANY, accept), expected, "{accept:?}");
    }
}

#[test]
fn format_decides_before_accept() {
    for format in ["mixed", "form-data", "related"] {
        for accept in
            [None, Some("*/*"), Some("multipart/mixed"), Some("multipart/form-data"), Some("multipart/related")]
        {
            assert_eq!(shape(&format!("{MANY}&format={format}"), accept), format!("multipart/{format}"));
            assert_eq!(shape(&format!("file1=f3&format={format}"), accept), format!("multipart/{format}"));
        }
    }
    let unknown = get(&format!("{MANY}&format=zip"), &[]);
    assert_eq!(unknown.status.as_u16(), 406);
    assert_eq!(field(&unknown, "content-type"), "application/problem+json");
}

#[test]
fn one_file_is_itself_unless_a_bundle_is_asked_for() {
    for accept in [None, Some("*/*"), Some("application/octet-stream"), Some("image/png"), Some("text/html, */*;q=0.1")]
    {
        assert_eq!(shape("file1=f3", accept), "application/octet-stream", "{accept:?}");
    }
    for (accept, expected) in [
        ("multipart/form-data", "multipart/form-data"),
        ("multipart/form-data, */*;q=0.5", "multipart/form-data"),
        ("multipart/*", "multipart/mixed"),
    ] {
        assert_eq!(shape("file1=f3", Some(accept)), expected, "{accept}");
    }
    let one = get("file1=f3&format=mixed", &[]);
    assert_eq!(field(&one, "axon-parts"), "1");
    let parts = crate::harness::read_multipart(&bytes(&one.body), field(&one, "content-type"));
    assert_eq!((parts.len(), parts[0].body.len()), (1, 17));
}

#[test]
fn shapes_have_tags_and_bytes_of_their_own() {
    let answers: Vec<_> = ["mixed", "form-data", "related"].map(|f| get(&format!("{MANY}&format={f}"), &[])).into();
    let tags: std::collections::HashSet<_> = answers.iter().map(|answer| field(answer, "etag").to_owned()).collect();
    assert_eq!(tags.len(), 3);
    for answer in &answers {
        let parts = crate::harness::read_multipart(&bytes(&answer.body), field(answer, "content-type"));
        assert_eq!(parts.iter().map(|part| part.body.len()).collect::<Vec<_>>(), [17, 300]);
        let disposition = parts[1].header("content-disposition").expect("a disposition");
        let is_form = field(answer, "content-type").starts_with("multipart/form-data");
        assert_eq!(
            disposition,
            if is_form { "form-data; name=\"file2\"; filename=\"f4\"" } else { "inline; filename=\"f4\"" }
        );
    }
    assert!(field(&answers[2], "content-type").ends_with("; type=\"application/octet-stream\""));
}
