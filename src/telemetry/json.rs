//! Records as JSON, one object a line, written straight into the record's buffer.
//!
//! tracing-subscriber has a JSON form of its own. It goes through a serializer's map and formats the whole time
//! for every record, which made the record of a small request cost a fifth of the request.

use std::{
    cell::RefCell,
    fmt::{self, Debug, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime as _, SystemTime as UtcTime},
    },
    registry::LookupSpan,
};

/// One JSON object a line: `timestamp`, `level`, `message`, then the event's fields in their order.
#[derive(Debug)]
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        out.write_str("{\"timestamp\":\"")?;
        write_timestamp(&mut out)?;
        out.write_str("\",\"level\":\"")?;
        out.write_str(event.metadata().level().as_str())?;
        out.write_char('"')?;
        let mut fields = Fields { out: &mut out, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        out.write_str("}\n")
    }
}

/// RFC 3339 with microseconds, in UTC. All but the fraction is formatted once a second.
fn write_timestamp(out: &mut Writer<'_>) -> fmt::Result {
    /// `2026-11-30T22:11:08`, the part that stays the same for a second.
    const WHOLE_SECONDS_LEN: usize = 19;

    thread_local! {
        static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }

    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut since_epoch = now();
    SECOND.with_borrow_mut(|(second, text)| {
        while *second != since_epoch.as_secs() || text.is_empty() {
            text.clear();
            UtcTime.format_time(&mut Writer::new(text))?;
            text.truncate(WHOLE_SECONDS_LEN);
            // The formatter looks at the clock itself: if a second began in between, once more.
            *second = since_epoch.as_secs();
            since_epoch = now();
        }
        out.write_str(text)?;
        // A leading one keeps the zeros behind it.
        let mut fraction = itoa::Buffer::new();
        out.write_char('.')?;
        out.write_str(&fraction.format(1_000_000 + since_epoch.subsec_micros())[1..])?;
        out.write_char('Z')
    })
}

/// Writes fields as they are visited; the first failure is kept.
struct Fields<'a, 'w> {
    out: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Fields<'_, '_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            self.result = write_name(self.out, field.name()).and_then(|()| value(self.out));
        }
    }
}

/// A field's name is an identifier of our own code: nothing to escape.
fn write_name(out: &mut Writer<'_>, name: &str) -> fmt::Result {
    for piece in [",\"", name, "\":"] {
        out.write_str(piece)?;
    }
    Ok(())
}

fn quoted(out: &mut Writer<'_>, text: impl FnOnce(&mut Escape<'_, Writer<'_>>) -> fmt::Result) -> fmt::Result {
    out.write_char('"')?;
    text(&mut Escape(out))?;
    out.write_char('"')
}

impl Visit for Fields<'_, '_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, |out| out.write_str(itoa::Buffer::new().format(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, |out| out.write_str(itoa::Buffer::new().format(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, |out| out.write_str(if value { "true" } else { "false" }));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, |out| quoted(out, |out| out.write_str(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, |out| quoted(out, |out| write!(out, "{value:?}")));
    }
}

/// Escapes what JSON does not let stand within quotes (RFC 8259 §7).
struct Escape<'a, W>(&'a mut W);

impl<W: Write> Write for Escape<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let special = |b: u8| b < 0x20 || matches!(b, b'"' | b'\\');
        // Looks at every byte, which is many at once; stopping at the first would be one by one.
        if !text.bytes().fold(false, |found, b| found | special(b)) {
            return self.0.write_str(text); // nearly always
        }
        let mut left = text;
        while let Some(at) = left.bytes().position(special) {
            self.0.write_str(&left[..at])?;
            match left.as_bytes()[at] {
                quoted @ (b'"' | b'\\') => write!(self.0, "\\{}", char::from(quoted))?,
                control => write!(self.0, "\\u{control:04x}")?,
            }
            left = &left[at + 1..];
        }
        self.0.write_str(left)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic before").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(record: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).event_format(JsonLines).finish();
        tracing::subscriber::with_default(subscriber, record);
        let bytes = buffer.0.lock().expect("no panic before").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn every_kind_of_value_is_json() {
        let line = written(|| {
            tracing::info!(
                text = "a\"b\\c\n\u{1b}ü",
                shown = %"x\ty",
                whole = -3_i64,
                count = u64::MAX,
                yes = true,
                none = None::<u64>,
                "the \"message\""
            );
        });
        assert!(line.ends_with("}\n") && line.matches('\n').count() == 1, "{line}");
        let value: Value = serde_json::from_str(&line).expect("JSON");
        let Some(Value::String(timestamp)) = value.get("timestamp") else { panic!("{line}") };
        assert!(timestamp.len() == 27 && timestamp.ends_with('Z') && &timestamp[10..11] == "T", "{timestamp}");
        assert_eq!(value["level"], "INFO");
        assert_eq!(value["message"], "the \"message\"");
        assert_eq!(value["text"], "a\"b\\c\n\u{1b}ü");
        assert_eq!(value["shown"], "x\ty");
        assert_eq!(value["whole"], -3);
        assert_eq!(value["count"], u64::MAX);
        assert_eq!(value["yes"], true);
        assert_eq!(value.get("none"), None);
    }

    #[test]
    fn the_time_is_that_of_the_record() {
        let second = |line: &str| line[14..33].to_owned();
        let first = written(|| tracing::info!("first"));
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let later = written(|| tracing::info!("later"));
        assert!(second(&first) < second(&later), "{first}{later}");
    }

    proptest! {
        #[test]
        fn whatever_is_escaped_reads_back(text in any::<String>()) {
            let mut out = String::from("\"");
            write!(Escape(&mut out), "{text}").expect("memory takes everything");
            out.push('"');
            prop_assert_eq!(serde_json::from_str::<String>(&out).expect("JSON"), text);
        }
    }
}
