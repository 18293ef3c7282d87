//! Who is let in: keys, and pages of other sites.
//!
//! A browser lets any page send requests to any address, this machine's own included. So whatever
//! comes from a page that is not the server's own is refused, unless its origin was allowed. A page
//! can also make its own name point at this machine and then asks as if it were the server's; the
//! name by which it asks gives it away.

use crate::ApiError;
use crate::config::Access;
use crate::error::ErrorKind;
use crate::page;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// Paths that need no key, as the page: they tell nothing.
const OPEN: [&str; 1] = ["/health"];

/// Checks the headers of a request to `path`.
///
/// # Errors
/// [`ErrorKind::Unauthorized`], [`ErrorKind::Forbidden`].
pub(crate) fn check(access: &Access, path: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    check_origin(access, headers)?;
    if !OPEN.contains(&path) {
        check_host(access, headers)?;
    }
    if access.keys.is_empty() || OPEN.contains(&path) || page::is_part(path) {
        return Ok(());
    }
    let Some(given) = key(headers) else {
        let message = "an API key is needed: send it as Authorization: Bearer KEY";
        return Err(unauthorized(message));
    };
    // All keys are looked at, so that the time does not tell which one is near.
    let fits = access
        .keys
        .iter()
        .fold(subtle::Choice::from(0), |found, key| found | key.as_bytes().ct_eq(given));
    if bool::from(fits) { Ok(()) } else { Err(unauthorized("the API key is not valid here")) }
}

fn unauthorized(message: &str) -> ApiError {
    ApiError { code: Some("invalid_api_key"), ..ApiError::new(ErrorKind::Unauthorized, message) }
}

fn key(headers: &HeaderMap) -> Option<&[u8]> {
    const BEARER: &[u8] = b"bearer ";
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then(|| key.trim_ascii())
    });
    bearer.or_else(|| Some(headers.get("x-api-key")?.as_bytes()))
}

fn check_origin(access: &Access, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let listed = access.origins.iter().any(|allowed| allowed == "*" || allowed == origin);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let own = host.is_some_and(|host| {
        let same = origin.split_once("://").is_some_and(|(_, origin)| origin == host);
        same && is_own(access, host)
    });
    if listed || own {
        return Ok(());
    }
    let origin: String = origin.chars().take(100).collect();
    let message =
        format!("pages of {origin:?} may not use this server; allow them with --cors-origin");
    Err(ApiError::new(ErrorKind::Forbidden, message))
}

/// Every browser says by which name it asks; clients that say nothing are none.
fn check_host(access: &Access, headers: &HeaderMap) -> Result<(), ApiError> {
    for host in headers.get_all(header::HOST) {
        let host = host.to_str().unwrap_or_default();
        if !is_own(access, host) {
            let host: String = host.chars().take(100).collect();
            let message = format!(
                "this server does not know the host name {host:?}; use its address, name it with \
                 --host, allow its pages with --cors-origin, or set an API key"
            );
            return Err(ApiError::new(ErrorKind::Forbidden, message));
        }
    }
    Ok(())
}

/// Whether a host is the server's own: a name that somebody made to point at this machine is not,
/// unless a key guards it anyway, or pages of that name are allowed.
fn is_own(access: &Access, host: &str) -> bool {
    let listed = |allowed: &String| {
        allowed == "*"
            || allowed.split_once("://").is_some_and(|(_, name)| name.eq_ignore_ascii_case(host))
    };
    let named = |name: &String| name.eq_ignore_ascii_case(without_port(host));
    !access.keys.is_empty()
        || is_local(host)
        || access.host.as_ref().is_some_and(named)
        || access.origins.iter().any(listed)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a host is an address or this machine's own name, which nobody else can give out.
fn is_local(host: &str) -> bool {
    let name = without_port(host).to_ascii_lowercase();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let one = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(one).collect()
    }

    fn checked(access: &Access, pairs: &[(&'static str, &'static str)]) -> Result<(), ErrorKind> {
        check(access, "/v1/models", &headers(pairs)).map_err(|error| error.kind)
    }

    #[test]
    fn keys_are_asked_for_where_there_are_some() {
        let access = Access { keys: vec!["one".into(), "two".into()], ..Access::default() };
        for good in [
            ("authorization", "Bearer one"),
            ("authorization", "bearer  two "),
            ("x-api-key", "two"),
        ] {
            assert_eq!(checked(&access, &[good]), Ok(()), "{good:?}");
        }
        for bad in [
            ("authorization", "Bearer on"),
            ("authorization", "Bearer one1"),
            ("authorization", "Bearer "),
            ("authorization", "Basic one"),
            ("authorization", "one"),
            ("x-api-key", ""),
            ("accept", "one"),
        ] {
            assert_eq!(checked(&access, &[bad]), Err(ErrorKind::Unauthorized), "{bad:?}");
        }
        for open in ["/health", "/", "/web/app.js"] {
            assert!(check(&access, open, &headers(&[])).is_ok());
        }
        assert_eq!(checked(&Access::default(), &[]), Ok(()));
        assert!(!format!("{access:?}").contains("one"));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let open = Access::default();
        let ask =
            |access: &Access, origin, host| checked(access, &[("origin", origin), ("host", host)]);
        for host in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "192.168.0.7"] {
            let origin: &'static str = format!("http://{host}").leak();
            assert_eq!(ask(&open, origin, host), Ok(()), "{host}");
        }
        let refused = Err(ErrorKind::Forbidden);
        assert_eq!(ask(&open, "http://evil.example", "localhost:8080"), refused);
        assert_eq!(ask(&open, "http://evil.example:8080", "evil.example:8080"), refused);
        assert_eq!(ask(&open, "null", "localhost:8080"), refused);
        let listed = Access { origins: vec!["http://a.example".into()], ..Access::default() };
        assert_eq!(ask(&listed, "http://a.example", "localhost:8080"), Ok(()));
        assert_eq!(ask(&listed, "http://b.example", "localhost:8080"), refused);
        let all = Access { origins: vec!["*".into()], ..Access::default() };
        assert_eq!(ask(&all, "http://b.example", "localhost:8080"), Ok(()));
    }
    #[test]
    fn names_that_others_gave_this_machine_are_refused() {
        let ask = |access: &Access, host| checked(access, &[("host", host)]);
        let open = Access::default();
        for host in ["localhost", "LOCALHOST:8080", "a.localhost:1", "127.0.0.1:8080", "[::1]:8080"]
        {
            assert_eq!(ask(&open, host), Ok(()), "{host}");
        }
        let refused = Err(ErrorKind::Forbidden);
        for host in
            ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost."]
        {
            assert_eq!(ask(&open, host), refused, "{host}");
        }
        assert!(check(&open, "/health", &headers(&[("host", "evil.example")])).is_ok());
        let named = Access { host: Some("box.lan".into()), ..Access::default() };
        assert_eq!(ask(&named, "Box.lan:8080"), Ok(()));
        let page = [("host", "box.lan:8080"), ("origin", "http://box.lan:8080")];
        assert_eq!(checked(&named, &page), Ok(()));
        assert_eq!(ask(&named, "evil.example"), refused);
        let listed = Access { origins: vec!["https://a.example".into()], ..Access::default() };
        assert_eq!(ask(&listed, "a.example"), Ok(()));
        assert_eq!(ask(&listed, "b.example"), refused);
        // With a key, whoever reads must know it.
        let keyed = Access { keys: vec!["one".into()], ..Access::default() };
        let with_key = [("host", "evil.example"), ("authorization", "Bearer one")];
        assert_eq!(checked(&keyed, &with_key), Ok(()));
    }
}
