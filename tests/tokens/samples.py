"""Short texts of every kind a conversation holds, for holding estimates against exact counts."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
import uuid

_DICE = random.Random(20)

SCRIPTS = {
    "english": "The quick brown fox compactions over the lazy dog, while the extraordinarily industrious "
    "beavers reconstruct their dam. Nevertheless, nobody had anticipated the consequences!",
    "german": "Die Donaudampfschifffahrtsgesellschaft hat am Donnerstag überraschend angekündigt, "
    "dass sämtliche Fahrpläne wegen außergewöhnlicher Witterungsverhältnisse geändert werden.",
    "french": "Après plusieurs années d'hésitation, l'équipe a finalement décidé de publier "
    "l'intégralité de ses résultats, même s'ils étaient moins élevés qu'espéré.",
    "spanish": "El niño preguntó cuándo llegaría la próxima lluvia, y su abuela contestó que "
    "nadie podía saberlo con seguridad; después siguió tejiendo en silencio.",
    "portuguese": "A avaliação não está concluída porque as informações necessárias ainda não "
    "foram enviadas pela administração do município.",
    "polish": "Wczoraj wieczorem żółty pies przebiegł przez źle oświetloną ulicę, a kierowca "
    "gwałtownie zahamował i wykrzyknął coś niezrozumiałego.",
    "turkish": "Öğrencilerin çoğu sınavdan önce kütüphanede çalışıyor, ancak bazıları evde daha "
    "rahat öğrendiğini söylüyor.",
    "vietnamese": "Chúng tôi đã gửi báo cáo đến bộ phận kỹ thuật vào sáng thứ hai, nhưng vẫn chưa "
    "nhận được câu trả lời nào từ họ.",
    "russian": "Вчера вечером инженеры обнаружили неисправность в системе охлаждения, и запуск "
    "пришлось отложить на неопределённое время.",
    "greek": "Χθες το βράδυ οι μηχανικοί ανακάλυψαν μια βλάβη στο σύστημα ψύξης και η εκτόξευση "
    "αναβλήθηκε επ' αόριστον.",
    "hebrew": "אתמול בערב גילו המהנדסים תקלה במערכת הקירור, והשיגור נדחה למועד בלתי ידוע.",
    "arabic": "اكتشف المهندسون مساء أمس عطلاً في نظام التبريد، مما أدى إلى تأجيل الإطلاق إلى أجل "
    "غير مسمى.",
    "hindi": "कल शाम इंजीनियरों ने शीतलन प्रणाली में खराबी पाई, इसलिए प्रक्षेपण को अनिश्चित काल के लिए "
    "स्थगित करना पड़ा।",
    "tamil": "நேற்று மாலை பொறியாளர்கள் குளிரூட்டும் அமைப்பில் ஒரு குறைபாட்டைக் கண்டுபிடித்தனர்.",
    "thai": "เมื่อวานเย็นวิศวกรพบความผิดปกติในระบบทำความเย็น การปล่อยจึงต้องเลื่อนออกไปอย่างไม่มีกำหนด",
    "georgian": "გუშინ საღამოს ინჟინრებმა გაგრილების სისტემაში ხარვეზი აღმოაჩინეს.",
    "armenian": "Երեկ երեկոյան ինժեներները անսարքություն հայտնաբերեցին հովացման համակարգում։",
    "amharic": "ትናንት ምሽት መሐንዲሶቹ በማቀዝቀዣው ሥርዓት ውስጥ ብልሽት አገኙ።",
    "chinese": "昨天晚上工程师们发现冷却系统出现故障,发射只好无限期推迟。有关部门表示将尽快公布调查结果。",
    "traditional": "昨天晚上工程師們發現冷卻系統出現故障,發射只好無限期推遲。有關部門表示將盡快公布調查結果。",
    "japanese": "昨夜、技術者たちは冷却システムの不具合を発見し、打ち上げは無期限に延期されました。",
    "korean": "어제 저녁 기술자들이 냉각 시스템의 결함을 발견하여 발사가 무기한 연기되었습니다.",
    "emoji": "🎉🚀 Great!! 👩‍👩‍👧‍👦 👍🏽 🇩🇪🇯🇵 ❤️‍🔥 🫠 😀😃😄😁😆 ✅❌⚠️ 🏳️‍🌈",
    "fullwidth": "ABC123!?「カタカナ」ハンカク",
}

CODE = '''
def _resolve_dependency_graph(nodes: dict[str, set[str]], *, strict: bool = True) -> list[str]:
    """Topologically sort nodes; raise CycleError if strict."""
    result, pending = [], {k: set(v) for k, v in nodes.items()}
    while pending:
        ready = [k for k, deps in pending.items() if not deps & pending.keys()]
        if not ready and strict:
            raise CycleError(f"unresolvable: {sorted(pending)!r}")
        result.extend(sorted(ready))
    return result

export const useFetchJSON = async <T,>(url: string, opts?: RequestInit): Promise<T> => {
\tconst res = await fetch(`${API_BASE}/v2/${url}?_ts=${Date.now()}`, { ...opts });
\tif (!res.ok) throw new HTTPError(res.status, await res.text());
\treturn (await res.json()) as T; // eslint-disable-line
};

SELECT u.id, COUNT(*) AS n_orders, SUM(o.total_cents)/100.0 FROM users u
LEFT JOIN orders o ON o.user_id = u.id WHERE o.created_at >= '2024-01-01' GROUP BY 1;
'''

LOG = """2024-05-03T12:04:55.123Z ERROR [worker-7] o.a.k.c.NetworkClient - Connection to node -1 failed
Traceback (most recent call last):
  File "/srv/app/handlers/payments.py", line 214, in charge_customer
    response = client.post(f"{self.base_url}/v1/charges", json=payload, timeout=30)
requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='api.example.com', port=443)
-rw-r--r--  1 deploy www-data   18231 May  3 11:58 ./node_modules/.cache/babel/3f9c2d.json
"""


def _letters(alphabet: str, count: int) -> str:
    return "".join(_DICE.choice(alphabet) for _ in range(count))


def _table() -> str:
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["order_id", "sku", "price", "quantity", "shipped_at"])
    for _ in range(40):
        sku = _letters("ABCDEFGHJKLMNPQRSTUVWXYZ0123456789", 8)
        price = f"{_DICE.random() * 999:.2f}"
        rows.writerow([_DICE.randrange(10**9), sku, price, _DICE.randrange(99), "2024-03-1"])
    return out.getvalue()


def _records() -> list[dict[str, object]]:
    return [
        {
            "id": str(uuid.UUID(int=_DICE.getrandbits(128))),
            "price": round(_DICE.random() * 500, 2),
            "available": _DICE.random() > 0.5,
            "options": {"color": "navy blue", "size": "XL", "waterproof": None},
            "product_id": str(_DICE.randrange(10**10)),
        }
        for _ in range(25)
    ]


DATA = {
    "code": CODE,
    "log": LOG,
    "json": json.dumps(_records()),
    "json_indented": json.dumps(_records(), indent=2),
    "csv": _table(),
    "base64": base64.b64encode(_DICE.randbytes(3000)).decode(),
    "urlsafe": base64.urlsafe_b64encode(_DICE.randbytes(3000)).decode(),
    "hex": _DICE.randbytes(1500).hex(),
    "upper_hex": _DICE.randbytes(1500).hex().upper(),
    "digits": _letters("0123456789", 3000),
    "uuids": "\n".join(str(uuid.UUID(int=_DICE.getrandbits(128))) for _ in range(60)),
    "random_lower": _letters("abcdefghijklmnopqrstuvwxyz", 2000),
    "random_upper": _letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2000),
    "random_ascii": _letters("".join(map(chr, range(33, 127))), 2000),
    "punctuation": _letters("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~", 1500),
    "floats": " ".join(f"{_DICE.gauss(0, 1):.6f}" for _ in range(200)),
    "control": "".join(map(chr, range(32))) * 20,
    "spaces": " " * 500 + "\n" * 300 + "\t" * 200 + "x \n y\t\tz  \r\n" * 30,
    "run": "A" * 3000,
    "escaped": json.dumps(json.dumps({"path": "C:\\tmp\\új\\файл", "n": "\n\t\u2028" * 40})),
    "random_hanzi": _letters("".join(map(chr, range(0x4E00, 0x9FA6))), 600),
    "random_hangul": _letters("".join(map(chr, range(0xAC00, 0xD7A4))), 600),
    "random_emoji": _letters("".join(map(chr, range(0x1F300, 0x1F650))), 400),
    "astral": _letters("".join(map(chr, range(0x10000, 0x1F000))), 500),
}

SAMPLES = {**SCRIPTS, **DATA}
