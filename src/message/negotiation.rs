//! The Accept field (RFC 9110 §12.5.1): which of several forms a client likes best.

/// The position of the offer that is liked best; None where none is acceptable.
///
/// An offer is liked as the most specific range that covers it says. Of offers liked equally the one that was named
/// more specifically wins, then the earlier one; so without the field, or with `*/*`, it is the first. Offers are
/// media types. Parameters do not count on either side, but for `q`: a client that writes
/// `multipart/related; type="text/html"` is given multipart/related.
pub fn preferred(accept: Option<&[u8]>, offers: &[Offer<'_>]) -> Option<usize> {
    let Some(accept) = accept.filter(|accept| !accept.trim_ascii().is_empty()) else {
        return (!offers.is_empty()).then_some(0);
    };
    let ranges: Vec<_> = accept.split(|&b| b == b',').filter_map(MediaRange::parse).collect();
    let mut best: Option<(usize, (u16, u8))> = None;
    for (position, offer) in offers.iter().enumerate() {
        let covering = ranges.iter().filter_map(|range| Some((range.specificity(offer)?, range.quality)));
        let Some((specificity, quality)) = covering.max() else { continue };
        let liking = (quality, specificity);
        if quality > 0 && best.is_none_or(|(_, so_far)| liking > so_far) {
            best = Some((position, liking));
        }
    }
    best.map(|(position, _)| position)
}

/// A form that an answer can have.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its media type.
    pub media_type: &'a str,
    /// Whether it is given only to a client that names its main type: then `*/*` does not cover it.
    pub only_by_name: bool,
}

/// One element of an Accept field.
struct MediaRange<'a> {
    main: &'a [u8],
    sub: &'a [u8],
    /// 0 to 1,000.
    quality: u16,
}

impl<'a> MediaRange<'a> {
    /// None for what is no media range.
    fn parse(element: &'a [u8]) -> Option<Self> {
        let mut pieces = element.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        let range = pieces.next()?;
        let slash = range.iter().position(|&b| b == b'/')?;
        let mut quality = 1000;
        for parameter in pieces {
            if let Some((b"q=" | b"Q=", value)) = parameter.split_at_checked(2) {
                quality = parse_quality(value)?;
            }
        }
        Some(Self { main: &range[..slash], sub: &range[slash + 1..], quality })
    }

    /// How specifically it covers a type: 2 by name, 1 by `type/*`, 0 by `*/*`.
    fn specificity(&self, offer: &Offer<'_>) -> Option<u8> {
        let essence = offer.media_type.split(';').next()?.trim_ascii();
        let (main, sub) = essence.split_once('/')?;
        let same_main = self.main.eq_ignore_ascii_case(main.as_bytes());
        match (self.main, self.sub) {
            (b"*", b"*") => (!offer.only_by_name).then_some(0),
            (_, b"*") if same_main => Some(1),
            (_, name) if same_main && name.eq_ignore_ascii_case(sub.as_bytes()) => Some(2),
            _ => None,
        }
    }
}

/// A weight (§12.4.2): `0` to `1` with at most three decimals, in thousandths.
fn parse_quality(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut quality = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    let mut weight = 100;
    for decimal in decimals {
        quality += weight * u16::from(decimal.is_ascii_digit().then(|| decimal - b'0')?);
        weight /= 10;
    }
    (quality <= 1000).then_some(quality)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(media_type: &str) -> Offer<'_> {
        Offer { media_type, only_by_name: false }
    }

    fn by_name(media_type: &str) -> Offer<'_> {
        Offer { media_type, only_by_name: true }
    }

    const SHAPES: [&str; 3] = ["multipart/mixed", "multipart/form-data", "multipart/related"];

    #[test]
    fn the_field_decides_and_the_first_offer_otherwise() {
        for (accept, expected) in [
            ("", Some("mixed")),
            ("*/*", Some("mixed")),
            ("multipart/*", Some("mixed")),
            ("multipart/form-data", Some("form-data")),
            ("Multipart/Form-Data", Some("form-data")),
            ("multipart/form-data, */*", Some("form-data")),
            ("*/*, multipart/related", Some("related")),
            ("multipart/related;q=0.5, multipart/form-data;q=0.7", Some("form-data")),
            ("multipart/form-data;q=0.5, */*;q=0.8", Some("mixed")),
            ("multipart/mixed;q=0, */*", Some("form-data")),
            ("multipart/mixed;q=0.2, multipart/*;q=0.5", Some("form-data")),
            ("multipart/form-data; q=0.001", Some("form-data")),
            ("multipart/form-data;Q=1.000", Some("form-data")),
            ("text/html, image/*", None),
            ("multipart/form-data;q=0", None),
            ("*/*;q=0", None),
            ("multipart/form-data;q=2", None),
            ("multipart/form-data;q=0.1234", None),
            ("multipart/form-data;boundary=x", Some("form-data")),
            ("multipart/related; type=\"text/html\"; q=0.5", Some("related")),
            ("multipart", None),
            (",;,/,", None),
        ] {
            let found = preferred(Some(accept.as_bytes()), &SHAPES.map(always))
                .map(|at| SHAPES[at].trim_start_matches("multipart/"));
            assert_eq!(found, expected, "{accept}");
        }
        assert_eq!(preferred(None, &SHAPES.map(always)), Some(0));
        assert_eq!(preferred(None, &[]), None);
    }

    #[test]
    fn a_file_is_preferred_as_itself_unless_a_bundle_is_asked_for() {
        let offers = [always("text/html; charset=utf-8"), by_name(SHAPES[0]), by_name(SHAPES[1])];
        for (accept, expected) in [
            ("*/*", Some(0)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(0)),
            ("multipart/form-data", Some(2)),
            ("multipart/*", Some(1)),
            ("image/png", None),
            ("text/html;q=0.5, */*", Some(0)),
            ("text/html;q=0.9, */*;q=0.95", Some(0)),
            ("text/html;q=0, */*", None),
            ("text/html;q=0.5, multipart/form-data", Some(2)),
        ] {
            assert_eq!(preferred(Some(accept.as_bytes()), &offers), expected, "{accept}");
        }
    }
}
