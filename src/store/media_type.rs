//! Media types by file name.

use http::HeaderValue;

/// Where nothing better is known (RFC 2046 §4.5.1).
const OCTET_STREAM: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Types that `mime_guess` lacks, names differently from the registry, or gives without a charset. Text is
/// declared as UTF-8: without a charset a client has to guess, and what is written today is UTF-8.
const OURS: &[(&str, &str)] = &[
    ("arrow", "application/vnd.apache.arrow.file"),
    ("avif", "image/avif"),
    ("br", "application/octet-stream"),
    ("cbor", "application/cbor"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("geojson", "application/geo+json"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jxl", "image/jxl"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mvt", "application/vnd.mapbox-vector-tile"),
    ("ndjson", "application/x-ndjson"),
    ("parquet", "application/vnd.apache.parquet"),
    ("pbf", "application/x-protobuf"),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zst", "application/zstd"),
];

/// The media type of a file by the extension of its name.
///
/// Never multipart/* or message/*: a reader would take the content apart.
pub fn media_type(name: &[u8]) -> HeaderValue {
    let base = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
    let Some(dot) = base.iter().rposition(|&b| b == b'.') else { return OCTET_STREAM };
    let Ok(extension) = std::str::from_utf8(&base[dot + 1..]) else { return OCTET_STREAM };
    let ours = OURS.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    if let Some((_, media_type)) = ours {
        return HeaderValue::from_static(media_type);
    }
    match mime_guess::from_ext(extension).first_raw() {
        Some(guess) if guess.starts_with("multipart/") || guess.starts_with("message/") => OCTET_STREAM,
        Some(guess) if guess.starts_with("text/") => {
            HeaderValue::from_str(&format!("{guess}; charset=utf-8")).unwrap_or(OCTET_STREAM)
        }
        Some(guess) => HeaderValue::from_static(guess),
        None => OCTET_STREAM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_name_the_type() {
        for (name, expected) in [
            ("a.txt", "text/plain; charset=utf-8"),
            ("dir.d/A.HTML", "text/html; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("m.wasm", "application/wasm"),
            ("i.avif", "image/avif"),
            ("t.parquet", "application/vnd.apache.parquet"),
            ("p.png", "image/png"),
            ("v.vtt", "text/vtt; charset=utf-8"),
            ("archive.tar.gz", "application/gzip"),
            ("noextension", "application/octet-stream"),
            ("dir.txt/noextension", "application/octet-stream"),
            ("trailing.", "application/octet-stream"),
            ("x.unheard-of", "application/octet-stream"),
            ("mail.eml", "application/octet-stream"),
            ("page.mht", "application/octet-stream"),
        ] {
            assert_eq!(media_type(name.as_bytes()), expected, "{name}");
        }
        assert_eq!(media_type(b"\xff.\xfe"), "application/octet-stream");
    }

    #[test]
    fn our_own_table_is_sorted_and_made_of_header_values() {
        assert!(OURS.is_sorted_by(|a, b| a.0 < b.0));
        for (_, media_type) in OURS {
            assert!(media_type.bytes().all(|b| (0x20..0x7f).contains(&b)), "{media_type}");
        }
    }
}
